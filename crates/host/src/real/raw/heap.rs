//! Memory that was freed and that the allocator keeps.

/// Gives what the allocator keeps back to the kernel. Where the C library has no call for that, nothing happens.
pub(in crate::real) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes a plain number and the allocator's own locks; it touches only memory that is free.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}
