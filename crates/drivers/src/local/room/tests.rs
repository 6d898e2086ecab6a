//! GetCapacity and CreateVolume say the same of every request, in every state of the pool.

use proptest::prelude::*;
use tonic::Code;

use super::*;

const GIB: u64 = 1 << 30;

prop_compose! {
    /// A pool of some size, some of it promised, often nearly all or more than all.
    fn any_room()(
        total in 0..4 * GIB,
        capacity in proptest::option::of(0..4 * GIB),
        over_provisioning in 0..4u32,
        percent in 0..130u64,
        more in 0..3 * MIB,
    ) -> Room {
        let pool = capacity.unwrap_or(u64::MAX).min(total);
        let promised = u128::from(pool) * u128::from(over_provisioning) * u128::from(percent) / 100;
        let config = LocalConfig::new("/pool".into(), "node".into()).expect("valid");
        let config = LocalConfig { capacity, over_provisioning, ..config };
        Room::new(&config, total, promised + u128::from(more))
    }
}

fn any_fs() -> impl Strategy<Value = Option<FsType>> {
    prop_oneof![Just(None), Just(Some(FsType::Ext4)), Just(Some(FsType::Xfs))]
}

fn create(range: Range, fs: Option<FsType>, room: Room) -> Result<u64, Code> {
    room.choose(&range, fs).map_err(|error| error.code())
}

proptest! {
    #[test]
    fn required_bytes_up_to_the_maximum_are_accepted(
        room in any_room(), fs in any_fs(), required in 1..5 * GIB,
    ) {
        let told = room.describe(fs);
        let largest = told.maximum_volume_size.unwrap_or_default().cast_unsigned();
        // The bound itself and its neighbours decide; chance would hardly ever meet them.
        for required in [required, largest, largest + 1, largest.saturating_sub(1)] {
            if required > 0 {
                let accepted = create(Range { required, limit: 0 }, fs, room);
                prop_assert_eq!(accepted.is_ok(), required <= largest, "{} {:?}", required, accepted);
            }
        }
    }

    #[test]
    fn limit_bytes_from_the_minimum_on_are_accepted(
        room in any_room(), fs in any_fs(), limit in 1..5 * GIB,
    ) {
        let told = room.describe(fs);
        let smallest = told.minimum_volume_size.unwrap_or_default().cast_unsigned();
        let any = told.maximum_volume_size.unwrap_or_default() > 0;
        for limit in [limit, smallest, smallest - 1] {
            let accepted = create(Range { required: 0, limit }, fs, room);
            prop_assert_eq!(accepted.is_ok(), any && limit >= smallest, "{} {:?}", limit, accepted);
        }
    }

    #[test]
    fn what_is_made_fits_what_is_left(room in any_room(), fs in any_fs(), required in 0..5 * GIB) {
        let told = room.describe(fs);
        match create(Range { required, limit: 0 }, fs, room) {
            Ok(size) => {
                prop_assert!(size >= required && size <= room.size && size <= room.left);
                prop_assert!(size.cast_signed() <= told.available_capacity);
                prop_assert!(size.is_multiple_of(MIB));
            }
            // Out of range is what no pool of this size could have, however empty.
            Err(code) => {
                let empty = Room { left: room.size, ..room };
                let never = create(Range { required, limit: 0 }, fs, empty).is_err();
                prop_assert_eq!(code, if never { Code::OutOfRange } else { Code::ResourceExhausted });
            }
        }
    }
}

#[test]
fn sums_beyond_any_number_are_no_trouble() {
    let config = LocalConfig::new("/pool".into(), "node".into()).expect("valid");
    let config = LocalConfig { over_provisioning: u32::MAX, ..config };
    let room = Room::new(&config, u64::MAX, u128::MAX);
    assert_eq!((room.size, room.left), (i64::MAX.cast_unsigned(), 0));
    let room = Room::new(&config, u64::MAX, 0);
    assert_eq!(room.left, u64::MAX);
    assert_eq!(room.describe(None).available_capacity, i64::MAX);
}
