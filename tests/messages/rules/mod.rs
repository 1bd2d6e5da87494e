//! Rules of messages that no other test breaks by itself, one by one.

mod hearing;
mod operators;
mod reports;
mod sending;

use lock_token_testing::Exchange;
use locker::message::NewMessage;
use locker_tests::ada;

use crate::post::Post;

/// Commit messages of the outbox: topic and subject.
async fn commit(post: &Post, messages: impl IntoIterator<Item = (String, String)>) {
    let (workflows, _) = post.desk.machine();
    let outbox = workflows.outbox();
    let puts = messages
        .into_iter()
        .map(|(topic, subject)| outbox.message(NewMessage::new(topic, &1).subject(subject)).unwrap());
    let puts: Vec<_> = puts.collect();
    for some in puts.chunks(50) {
        post.commit(some.to_vec()).await;
    }
}

fn is_next_page(it: &Exchange) -> bool {
    it.operation == "Query" && it.request.to_string().contains("ExclusiveStartKey")
}
