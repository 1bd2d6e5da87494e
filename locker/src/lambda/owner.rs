//! The owner of a token that an invocation takes.

use lambda_runtime::Context;

/// Returns the owner's name of this invocation, `function/request-id`, which identifies its logs.
///
/// Pass it to [`BeginBuilder::owner`](crate::BeginBuilder::owner) or
/// [`StartBuilder::owner`](crate::workflow::StartBuilder::owner). In a test, where a `Context` has
/// neither, it is `local/invocation`.
#[must_use]
pub fn owner(context: &Context) -> String {
    let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
    let (function, request) =
        (or(&context.env_config.function_name, "local"), or(&context.request_id, "invocation"));
    format!("{function}/{request}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_never_empty() {
        let mut context = Context::default();
        assert_eq!(owner(&context), "local/invocation");
        context.request_id = "8f5c".to_owned();
        assert_eq!(owner(&context), "local/8f5c");
    }
}
