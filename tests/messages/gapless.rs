//! Numbers without gaps: what is said of one that is early, and of a counter that was set back.

use locker::inbox::{Incoming, ReceiveError, Taken};
use locker_tests::Fate;

use crate::inbox::{count, packed};
use crate::post::Post;

fn order(id: &str) -> Incoming {
    let mut message = Incoming::new("/orders", id, "order.placed", "1");
    message.subject = Some("order/7".to_owned());
    message
}

#[tokio::test(start_paused = true)]
async fn a_message_is_not_said_to_be_early_whose_lost_request_may_arrive_in_its_turn() {
    let post = Post::new().await;
    let (workflows, wire) = post.sender();
    let inbox = workflows.inbox("packer").unwrap();
    let second = order("2");
    let take = async || inbox.atomic(&second).gapless(2).update(packed(&post)).commit().await;
    assert_eq!(take().await.unwrap(), Taken::Early { expects: 1 });
    wire.matching(|it| it.operation == "TransactWriteItems", Fate::Late);
    let unknown = take().await.unwrap_err();
    assert!(matches!(unknown, ReceiveError::Locker(locker::Error::Unknown { .. })), "{unknown:?}");
    let other = post.sender().0.inbox("packer").unwrap();
    assert_eq!(other.atomic(&order("1")).gapless(1).commit().await.unwrap(), Taken::Now);
    assert_eq!((wire.deliver_late().await, count(&post).await), (1, 1));
    assert_eq!((take().await.unwrap(), count(&post).await), (Taken::Before, 1));
}

#[tokio::test(start_paused = true)]
async fn another_message_under_a_number_that_was_taken_is_not_said_to_be_done_with() {
    let post = Post::new().await;
    let inbox = post.sender().0.inbox("packer").unwrap();
    let take = async |id: &str, number| {
        let message = order(id);
        inbox.atomic(&message).gapless(number).update(packed(&post)).commit().await.unwrap()
    };
    assert_eq!((take("a", 1).await, take("b", 2).await), (Taken::Now, Taken::Now));
    // The sender's table is restored from a backup, and its counter with it.
    let came_to = take("c", 2).await;
    assert_eq!((&came_to, came_to.done().is_ok(), count(&post).await), (&Taken::SameNumber, false, 2));
    assert_eq!((take("b", 2).await, take("d", 3).await), (Taken::Before, Taken::Now));
}
