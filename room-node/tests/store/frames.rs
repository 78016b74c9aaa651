//! The stored form of a frame: round trips, damage, and the golden file of version 1.

use bytes::Bytes;
use room_node::store::{Fence, Frame, FrameError, Record};

/// The frame of `tests/golden/v1/frame.bin`. The file is never rewritten; a later version gets a
/// folder of its own.
fn golden() -> Frame {
    let record = |bytes: &'static [u8]| Record { bytes: Bytes::from_static(bytes) };
    Frame {
        first_lsn: 0x0102_0304_0506_0708,
        fence: Fence { epoch: 3, nonce: 0xfeed_face_cafe_beef },
        batch: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        schema: 1,
        records: vec![record(b"first event"), record(b""), record(&[0, 255, 7])],
    }
}

#[test]
fn golden_frame_of_version_1_is_read_and_written() {
    let file: &[u8] = include_bytes!("../golden/v1/frame.bin");
    assert_eq!(Frame::decode(Bytes::from_static(file)), Ok(golden()));
    assert_eq!(golden().encode(), file);
    assert_eq!(golden().last_lsn(), golden().first_lsn + 2);
}

#[test]
fn every_flipped_bit_is_refused() {
    let whole = golden().encode();
    for at in 0..whole.len() * 8 {
        let mut bytes = whole.to_vec();
        bytes[at / 8] ^= 1 << (at % 8);
        let expected = match at / 8 {
            0 | 1 => FrameError::Magic,
            2 => FrameError::Version(bytes[2]),
            _ => FrameError::Checksum,
        };
        assert_eq!(Frame::decode(bytes.into()), Err(expected), "bit {at}");
    }
}

#[test]
fn short_and_long_input_is_refused() {
    let whole = golden().encode();
    for len in 0..whole.len() {
        let expected = if len < 7 { FrameError::Short } else { FrameError::Checksum };
        assert_eq!(Frame::decode(whole.slice(..len)), Err(expected), "{len} bytes");
    }
    let mut longer = whole.to_vec();
    longer.push(0);
    assert_eq!(Frame::decode(longer.into()), Err(FrameError::Checksum));
}

/// Bodies with a right checksum that are no frames all the same.
#[test]
fn wrong_bodies_with_a_right_checksum_are_refused() {
    let body = golden().encode().slice(7..);
    let count_at = 8 + 8 + 8 + 16 + 4;
    let with_count = |count: u32| {
        let mut body = body.to_vec();
        body[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
        body
    };
    let mut trailing = body.to_vec();
    trailing.push(0);
    let mut long_record = body.to_vec();
    long_record[count_at + 4..count_at + 8].copy_from_slice(&u32::MAX.to_be_bytes());
    let empty = body[..count_at].iter().copied().chain([0; 4]).collect();
    let rows = [
        body[..47].to_vec(),
        with_count(2),
        with_count(4),
        with_count(u32::MAX),
        trailing,
        long_record,
        empty,
    ];
    for (row, body) in rows.into_iter().enumerate() {
        let mut bytes = b"RF\x01".to_vec();
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_be_bytes());
        bytes.extend_from_slice(&body);
        assert_eq!(Frame::decode(bytes.into()), Err(FrameError::Short), "row {row}");
    }
}

#[test]
fn newer_version_says_so() {
    for version in [0, 2, 255] {
        let mut bytes = golden().encode().to_vec();
        bytes[2] = version;
        assert_eq!(Frame::decode(bytes.into()), Err(FrameError::Version(version)));
    }
}
