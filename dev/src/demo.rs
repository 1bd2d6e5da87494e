//! The text of `locker dev`: addresses, and lines to paste. A test runs each line, and looks for
//! the output that the text names.

const RESOLVE: &str = "{locker} resolve{place} @you/order/create/{2} --reason 'the provider has the charge' \
                       --result '{\"orderId\":\"{2}\",\"charge\":\"ch_{2}\"}'";

/// The servers of `dev`, and the place of its tables.
pub(crate) struct Demo<'a> {
    pub(crate) api: &'a str,
    pub(crate) provider: &'a str,
    /// The first address of the web console, which is valid once.
    pub(crate) console: &'a str,
    /// The options that name the place in a call of the command.
    pub(crate) place: &'a str,
    /// The number of charges in the provider's books: the text names orders and charges that are
    /// new.
    pub(crate) charges: usize,
}

impl Demo<'_> {
    pub(crate) fn text(&self) -> String {
        let locker = if std::env::var_os("CARGO").is_some() { "cargo run -q --" } else { "locker" };
        let mut text = include_str!("demo.txt")
            .replace(
                "{redrive}",
                "{locker} dead{place} redrive --topic order/placed --reason 'the queue exists'",
            )
            .replace("{resolve}", RESOLVE)
            .replace(
                "{retry}",
                "{locker} workflow{place} retry @you/purchase/k{4} --reason 'the provider is back'",
            )
            .replace("{locker}", locker)
            .replace("{place}", self.place);
        for number in 1..=5 {
            let order = self.charges + number;
            let post = |path: &str, option: &str| {
                format!(
                    "curl -s {option}-w ' %{{http_code}}\\n' {{api}}/{path} -H 'Idempotency-Key: k{order}' -H 'Content-Type: \
                     application/json' -d '{{\"orderId\":\"{order}\",\"cents\":1000,\"currency\":\"EUR\"}}'"
                )
            };
            text = text
                .replace(&format!("{{silent order {number}}}"), &post("orders", "-o /dev/null "))
                .replace(&format!("{{order {number}}}"), &post("orders", ""))
                .replace(&format!("{{purchase {number}}}"), &post("purchases", ""))
                .replace(&format!("{{{number}}}"), &order.to_string());
        }
        text.replace("{api}", self.api)
            .replace("{provider}", self.provider)
            .replace("{console}", self.console)
    }
}
