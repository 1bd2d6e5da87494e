//! Large bodies in a bucket.

use locker::aws::Bucket;
use locker::message::{Bodies as _, ClaimCheck};
use locker::{Class, Classify};

use crate::account::Account;

#[tokio::test]
#[ignore = "needs Moto: run by tests/moto"]
async fn a_body_is_in_the_bucket_once_and_is_fetched_as_it_was() {
    let account = Account::new("bodies");
    let name = account.bucket().await;
    let bucket = Bucket::new(&account.s3, &name);
    let bodies = ClaimCheck::new(bucket.clone()).prefix("reports/");
    let report: Vec<u32> = (0..100_000).collect();
    let claim = bodies.store(&report).await.unwrap();
    assert_eq!(bodies.store(&report).await.unwrap(), claim);
    assert_eq!(bodies.fetch::<Vec<u32>>(&claim).await.unwrap(), report);
    let listed = account.s3.list_objects_v2().bucket(&name).send().await.unwrap();
    let keys: Vec<_> = listed.contents().iter().filter_map(|object| object.key()).collect();
    assert_eq!(keys.len(), 1);
    assert!(keys[0].starts_with("reports/"), "{keys:?}");

    assert_eq!(bucket.get("reports/none").await.unwrap(), None);
    account.s3.delete_object().bucket(&name).key(keys[0]).send().await.unwrap();
    let absent = bodies.fetch::<Vec<u32>>(&claim).await.unwrap_err();
    assert_eq!(Classify::code(&absent).as_deref(), Some("claim.absent"));
    let elsewhere = ClaimCheck::new(Bucket::new(&account.s3, "no-such-bucket"));
    let failed = elsewhere.store(&report).await.unwrap_err();
    assert_eq!(failed.class(), Class::Transient);
    assert!(failed.to_string().contains("NoSuchBucket"), "{failed}");
}
