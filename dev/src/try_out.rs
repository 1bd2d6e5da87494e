//! The text of `locker dev`: addresses, and calls to try.

pub(crate) fn what_to_try(api: &str, books: &str, place: &str) -> String {
    let locker = if std::env::var_os("CARGO").is_some() { "cargo run -q --" } else { "locker" };
    let order = |key: &str, id: u32| {
        format!(
            "curl -s {api}/orders -H 'Idempotency-Key: {key}' -H 'Content-Type: application/json' -d '{{\"orderId\":\"{id}\",\"cents\":1000,\"currency\":\"EUR\"}}'"
        )
    };
    let purchase = |key: &str, id: u32| order(key, id).replacen("/orders", "/purchases", 1);
    format!(
        "The orders API listens on {api}
Its payment provider listens on {books}
Both log to standard error, and so do the scanner, the completer and the reaper. Stop with Ctrl-C.

In another terminal: one order and one charge, however often the request is sent:

  {first}
  seq 50 | xargs -P 50 -I@ {first} -o /dev/null -w '%{{http_code}} '
  curl -s {books}/books

A reply that is dropped after the charge: the outcome is unknown, so the order is not charged again, and the scanner
reports it:

  curl -s -X POST {books}/mood/dropping
  {second}
  curl -s -X POST {books}/mood/well
  {second}
  {locker} scan{place}
  curl -s {books}/books
  {locker} resolve{place} @you/order/create/2 --reason 'it is in the books' --result '{{\"orderId\":\"2\",\"charge\":\"ch_2\"}}'
  {second}

A purchase is a workflow: an order row, a charge, and the row marked as paid. If the provider does not answer, the
workflow is driven again, and then quarantined, with all that is known about it:

  {bought}
  {locker} workflow{place} show @you/purchase/k1
  curl -s -X POST {books}/mood/mute
  {stuck}
  {locker} workflow{place} ls
  curl -s -X POST {books}/mood/well
  {locker} workflow{place} retry @you/purchase/k3 --reason 'the provider is back'
  {stuck}
",
        bought = purchase("k1", 1),
        stuck = purchase("k3", 3),
        first = order("k1", 1),
        second = order("k2", 2),
    )
}
