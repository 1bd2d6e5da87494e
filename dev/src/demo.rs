//! The text of `locker dev`: addresses, and lines to paste. A test runs each line, and looks for what the text says that
//! it prints.

/// A place that `dev` serves, and what is in it.
pub(crate) struct Demo<'a> {
    pub(crate) api: &'a str,
    pub(crate) provider: &'a str,
    /// The options that name the place in a call of the command.
    pub(crate) place: &'a str,
    /// The number of charges in the provider's books: the text names orders and charges that are new.
    pub(crate) charges: usize,
}

/// A line to paste: what it does, the parts of what it prints, and the line.
type Line = (&'static str, String, String);

impl Demo<'_> {
    pub(crate) fn text(&self) -> String {
        let Self { api, provider, .. } = self;
        let mut text = format!(
            "The orders API listens on {api}
Its payment provider listens on {provider}
Both log to standard error, and so do the packers and what runs on a schedule. Stop with Ctrl-C.
Tables and books stay, and --fresh begins with empty ones.

Paste into another terminal, in this order. Above each line is what it prints, among other things.
"
        );
        let sections = [
            ("One order and one charge, however often the request is sent", self.race()),
            (
                "A reply that is lost after the charge: nobody charges again, and an operator resolves it",
                self.lost(),
            ),
            (
                "A purchase is a workflow: an order row, a charge, the row marked as paid, a message to the packers, and their parcel",
                self.bought(),
            ),
            (
                "A provider that does not answer: the workflow is driven again, and then quarantined",
                self.stuck(),
            ),
            (
                "A queue that does not exist: the message is dead, and an operator has it sent again",
                self.dead(),
            ),
        ];
        for (title, lines) in sections {
            text.push_str(&format!("\n{title}:\n\n"));
            for (does, prints, line) in lines {
                text.push_str(&format!("  # {does}. Prints: {prints}\n  {line}\n"));
            }
        }
        text
    }

    fn race(&self) -> Vec<Line> {
        let (order, charge) = self.numbered(1);
        let sent = self.order("orders", order, "");
        let fifty = format!(
            "seq 50 | xargs -P 50 -I@ {} | sort | uniq -c",
            self.order("orders", order, "-o /dev/null ")
        );
        let books = self.charged(&format!("@you/order/create/{order}"));
        vec![
            (
                "Fifty requests at once: 409 is for those that come while one of them is at work",
                "201".to_owned(),
                fifty,
            ),
            ("The request once more gets the answer of that one charge", format!("201, {charge}"), sent),
            ("The books of the provider agree", charge, books),
        ]
    }

    fn lost(&self) -> Vec<Line> {
        let (order, charge) = self.numbered(2);
        let locker = locker();
        let key = format!("@you/order/create/{order}");
        let sent = || self.order("orders", order, "");
        let result = format!("{{\"orderId\":\"{order}\",\"charge\":\"{charge}\"}}");
        let place = self.place;
        vec![
            (
                "From now on the provider charges, and drops its reply",
                "dropping".to_owned(),
                self.mood("dropping"),
            ),
            ("So it is unknown whether the order was charged", "504, in-doubt".to_owned(), sent()),
            ("The provider replies again", "well".to_owned(), self.mood("well")),
            (
                "The order is not charged again, and waits for an operator",
                "409, order-overdue".to_owned(),
                sent(),
            ),
            ("The scanner tells of it", format!("1 missing, {key}"), format!("{locker} scan{place}")),
            ("It was charged", charge.clone(), self.charged(&key)),
            (
                "An operator records that",
                format!("resolved {key}"),
                format!(
                    "{locker} resolve{place} {key} --reason 'it is in the books' --result '{result}' < /dev/null"
                ),
            ),
            ("The customer gets the answer", format!("201, {charge}"), sent()),
        ]
    }

    fn bought(&self) -> Vec<Line> {
        let (order, charge) = self.numbered(3);
        let show = format!("{} workflow{} show @you/purchase/k{order}", locker(), self.place);
        vec![
            (
                "It is driven by the request, and waits for its parcel: 202 becomes 200",
                charge,
                self.until_done(self.order("purchases", order, "")),
            ),
            ("Its steps are on record", "place, charge, pay, pack".to_owned(), show),
        ]
    }

    fn stuck(&self) -> Vec<Line> {
        let (order, charge) = self.numbered(4);
        let (locker, place, key) = (locker(), self.place, format!("@you/purchase/k{order}"));
        let sent = || self.order("purchases", order, "");
        let quarantine = format!("{locker} workflow{place} ls --quarantine");
        vec![
            ("From now on the provider charges, and answers nothing", "mute".to_owned(), self.mood("mute")),
            ("The purchase goes on without its customer", "202".to_owned(), sent()),
            (
                "After three attempts it is in quarantine. This line waits for it",
                format!("{key}, charge"),
                format!("until {quarantine} 2> /dev/null | grep {key}; do sleep 1; done"),
            ),
            ("The customer is told", "503, quarantine".to_owned(), sent()),
            ("The provider answers again", "well".to_owned(), self.mood("well")),
            (
                "An operator lets the workflow be driven again",
                format!("retried {key}"),
                format!("{locker} workflow{place} retry {key} --reason 'the provider is back' < /dev/null"),
            ),
            ("The charge is found in the books, and not made again", charge, self.until_done(sent())),
        ]
    }

    fn dead(&self) -> Vec<Line> {
        let (order, charge) = self.numbered(5);
        let (locker, place) = (locker(), self.place);
        let sent = || self.order("purchases", order, "");
        let queue = |mood: &str| format!("curl -s -w '\\n' -X POST {}/queue/{mood}", self.api);
        let redrive =
            format!("{locker} dead{place} redrive --topic order/placed --reason 'the queue is there'");
        let shown = format!("$({redrive} 2>&1 | grep -o '[0-9a-f]*$')");
        vec![
            ("From now on the queue of the packers does not exist", "gone".to_owned(), queue("gone")),
            ("The purchase is paid, and waits for its parcel", "202".to_owned(), sent()),
            (
                "Its message is dead",
                "order/placed, NonExistentQueue".to_owned(),
                format!("{locker} dead{place} ls"),
            ),
            ("The queue is there again", "well".to_owned(), queue("well")),
            (
                "An operator looks at what a redrive would do",
                "redrive: 1 of 1 found".to_owned(),
                redrive.clone(),
            ),
            (
                "And does what was shown",
                "1 done, 1 of them sent or handled by now".to_owned(),
                format!("{redrive} --seen {shown}"),
            ),
            ("The order is packed, and charged once", charge, self.until_done(sent())),
        ]
    }

    /// Repeats a request until its purchase has completed.
    fn until_done(&self, request: String) -> String {
        format!("until {request} | grep charge; do sleep 1; done")
    }

    /// The number of an order, and of the charge for it, if each line is run once and in order.
    fn numbered(&self, number: usize) -> (usize, String) {
        let number = self.charges + number;
        (number, format!("ch_{number}"))
    }

    fn order(&self, path: &str, order: usize, options: &str) -> String {
        let api = self.api;
        format!(
            "curl -s {options}-w ' %{{http_code}}\\n' {api}/{path} -H 'Idempotency-Key: k{order}' -H 'Content-Type: application/json' -d '{{\"orderId\":\"{order}\",\"cents\":1000,\"currency\":\"EUR\"}}'"
        )
    }

    fn mood(&self, mood: &str) -> String {
        format!("curl -s -w '\\n' -X POST {}/mood/{mood}", self.provider)
    }

    /// Asks the provider what it charged under a key.
    fn charged(&self, key: &str) -> String {
        format!("curl -s -w '\\n' {}/charges/{}", self.provider, key.replace('/', "%2F"))
    }
}

/// The command, as it is started from here.
fn locker() -> &'static str {
    if std::env::var_os("CARGO").is_some() { "cargo run -q --" } else { "locker" }
}
