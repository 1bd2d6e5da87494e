//! A filter in words.

use std::fmt;

use super::filter::Filter;
use crate::core::time;

/// In words for people, such as `held; cause contains "relay"`.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |words: &str, text: &Option<String>| text.as_ref().map(|text| format!("{words} {text:?}"));
        let words = [
            self.need.map(|need| need.to_string()),
            self.due.then(|| "workflows that are due".to_owned()),
            text("group", &self.group),
            text("workflows named", &self.workflow),
            text("messages of topic", &self.topic),
            text("set aside by", &self.consumer),
            text("message", &self.message),
            text("key begins with", &self.prefix),
            text("key", &self.key),
            text("tenant", &self.tenant),
            self.class.map(|class| format!("class {}", class.as_str())),
            text("cause contains", &self.cause),
            text("owner contains", &self.owner),
            text("begun inside", &self.within),
            text("mentions", &self.text),
            self.at_least_for.map(|time| format!("for at least {time:?}")),
            self.at_most_for.map(|time| format!("for at most {time:?}")),
            self.since.map(|from| format!("since {} or later", time::to_text(from))),
            self.until.map(|until| format!("since before {}", time::to_text(until))),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
        f.pad(&if words.is_empty() { "all".to_owned() } else { words.join("; ") })
    }
}
