//! One server.

use bytes::Bytes;
use prometheus::Registry;
use redis_link::redis::{self, Value};
use redis_link::rig::Server;
use redis_link::{Durability, Failure, RedisLink, Settings, Unsent};

use crate::{COUNTER, add, read, soon};

#[tokio::test]
async fn functions_commands_and_blobs() {
    let server = Server::start(&[]).unwrap();
    let settings = Settings::new(server.url().parse().unwrap(), Durability::D0, COUNTER);
    let link = RedisLink::open(settings, &Registry::new()).await.unwrap();
    assert!(link.is_open());
    assert_eq!(link.call(add("{a}x", 2)).await, Ok(Value::Int(2)));
    assert_eq!(link.call(add("{a}x", 3)).await, Ok(Value::Int(5)));
    assert_eq!(link.call(read("{a}x")).await, Ok(Value::Int(5)));
    let mut get = redis::cmd("GET");
    get.arg("{a}x");
    let got = link.command(b"{a}x", get, soon()).await;
    assert_eq!(got, Ok(Value::BulkString(b"5".to_vec())));
    let blob = Bytes::from(vec![7_u8; 100_000]);
    link.put(Bytes::from("{a}b"), blob.clone(), 60_000, soon()).await.unwrap();
    assert_eq!(link.get(Bytes::from("{a}b"), soon()).await, Ok(Some(blob)));
    assert_eq!(link.get(Bytes::from("{a}none"), soon()).await, Ok(None));
    let mut unknown = add("{a}x", 1);
    unknown.function = "nothing";
    let refused = Failure::NotSent { reason: Unsent::NoFunction };
    assert_eq!(link.call(unknown).await, Err(refused));
}
