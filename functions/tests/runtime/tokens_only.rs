//! The part with tokens and scanner: its key.

use crate::template::{part, yaml};

#[test]
fn key_of_the_user_encrypts_the_table_and_each_policy_may_use_it() {
    let tokens = part("Tokens", true);
    let encryption = yaml(
        "{ 'Fn::If': [HasKey, { SSEEnabled: true, SSEType: KMS, KMSMasterKeyId: { Ref: KmsKeyArn } }, \
         { Ref: AWS::NoValue }] }",
    );
    assert_eq!(tokens["Resources"]["Locks"]["Properties"]["SSESpecification"], encryption);
    let policy = &tokens["Resources"]["TokenPolicy"]["Properties"]["PolicyDocument"]["Statement"];
    let scanner = &tokens["Resources"]["Scanner"]["Properties"]["Policies"][0]["Statement"];
    for statements in [policy, scanner] {
        let statements = statements.as_sequence().expect("statements");
        let with_key: Vec<_> = statements.iter().filter(|it| it["Fn::If"][0] == "HasKey").collect();
        let [with_key] = with_key[..] else { panic!("one statement: {with_key:?}") };
        let allowed = &with_key["Fn::If"][1];
        assert_eq!(allowed["Action"], yaml("['kms:Decrypt']"));
        assert_eq!(allowed["Resource"], yaml("{ Ref: KmsKeyArn }"));
        assert!(!allowed["Condition"]["StringEquals"]["kms:ViaService"].is_null());
    }
}
