/// The few system calls that every folder of this module uses: closing, clocks, error texts.
import CLinux
import Glibc
import PushCore

/// The system's text for an error code.
package func systemErrorText(_ code: Int32) -> String {
  guard let text = unsafe strerror(code) else { return "error \(code)" }
  return unsafe String(cString: text)
}

/// Closes a descriptor once. Linux frees it even if `close` is interrupted, so it is never repeated.
func closeDescriptor(_ fileDescriptor: Int32) {
  _ = close(fileDescriptor)
}

/// Nanoseconds of a clock that cannot fail (`CLOCK_MONOTONIC`, `CLOCK_REALTIME`).
func clockNanoseconds(_ clock: clockid_t) -> Int64 {
  var time = timespec()
  unsafe clock_gettime(clock, &time)
  return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
}
