use std::time::Duration;

use bowline_machinery::queue::Backoff;

use super::super::memory::Memory;
use super::super::model::Answer;
use super::report;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_driver_is_asked_again_with_growing_pauses_until_the_snapshot_is_ready() {
    let (memory, backoff) = (Memory::default(), Backoff { start: SECOND, max: 4 * SECOND });
    let mut now = Duration::ZERO;
    for pause in [1, 2, 4, 4] {
        memory.reported("u", report(false), now, backoff);
        assert_eq!(memory.answer("u", now), Answer::Reported(report(false)));
        assert_eq!(memory.asks_again("u", now), Some(pause * SECOND));
        now += pause * SECOND;
        assert_eq!(memory.answer("u", now), Answer::None, "time to ask again");
    }
    memory.reported("u", report(true), now, backoff);
    assert_eq!(memory.answer("u", now + 1000 * SECOND), Answer::Reported(report(true)));
    assert_eq!(memory.asks_again("u", now), None);
}

#[test]
fn only_the_first_call_after_the_mark_was_set_here_can_be_the_first() {
    let memory = Memory::default();
    assert!(!memory.sends("u"), "a mark that another process has set");
    memory.marked("u");
    assert!(memory.sends("u"));
    assert!(!memory.sends("u"), "an earlier call may have taken effect");
}
