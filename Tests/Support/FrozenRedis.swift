/// A private Redis server whose clock moves only when a test sets it, and a connection to it.
import Glibc

/// The clock is a library that is loaded before the C library: it reads the time of day from a file that the
/// test writes. So a reply that depends on the time can be compared exactly.
package final class FrozenRedis {
  package let server: RedisServer
  private let folder: TemporaryFolder
  private let clock: Int32
  private let socketDescriptor: Int32
  private var received: [UInt8] = []

  private static let library = """
    #include <fcntl.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <sys/time.h>
    #include <time.h>
    #include <unistd.h>

    static const volatile int64_t *now;

    __attribute__((constructor)) static void open_clock(void) {
      int file = open(getenv("FROZEN_CLOCK"), O_RDONLY | O_CLOEXEC);
      now = mmap(0, sizeof *now, PROT_READ, MAP_SHARED, file, 0);
      if (now == MAP_FAILED) abort();
    }

    int gettimeofday(struct timeval *restrict result, void *restrict zone) {
      (void)zone;
      result->tv_sec = *now / 1000000;
      result->tv_usec = *now % 1000000;
      return 0;
    }

    time_t time(time_t *result) {
      time_t seconds = *now / 1000000;
      if (result) *result = seconds;
      return seconds;
    }
    """

  /// Starts it. `configuration`: further lines of redis.conf.
  package init(unixMicroseconds: Int64, configuration: [String] = []) throws(TestFailure) {
    folder = try TemporaryFolder("frozen")
    guard let compiler = ChildProcess.find("clang") ?? ChildProcess.find("cc") else {
      throw TestFailure("no C compiler: clang comes with Swift")
    }
    let source = try folder.write(Self.library, to: "clock.c")
    let built = try ChildProcess.run([compiler, "-shared", "-fPIC", "-O1", "-o", folder.path("clock.so"), source])
    guard built.status == 0 else { throw TestFailure("the clock does not compile: \(built.errors)") }
    try folder.write(String(repeating: "0", count: 8), to: "clock")
    clock = unsafe open(folder.path("clock"), O_RDWR | O_CLOEXEC)
    guard clock >= 0 else { throw TestFailure("cannot open the clock") }
    var time = unixMicroseconds
    _ = unsafe pwrite(clock, &time, 8, 0)
    server = try RedisServer(
      configuration: configuration,
      environment: ["FROZEN_CLOCK=\(folder.path("clock"))", "LD_PRELOAD=\(folder.path("clock.so"))"])
    guard let descriptor = LoopbackPort.connection(to: server.port, timeoutMilliseconds: 10_000) else {
      close(clock)
      throw TestFailure("cannot connect to Redis on port \(server.port)")
    }
    socketDescriptor = descriptor
  }

  deinit {
    close(clock)
    close(socketDescriptor)
  }

  /// Sets its clock. No command may be in flight.
  package func set(unixMicroseconds: Int64) throws(TestFailure) {
    var time = unixMicroseconds
    guard unsafe pwrite(clock, &time, 8, 0) == 8 else { throw TestFailure("cannot set the clock") }
  }

  /// Sends commands and returns the bytes of all replies. `mark` is the last command's reply, and occurs nowhere else.
  package func exchange(_ commands: [UInt8], endingWith mark: [UInt8]) throws(TestFailure) -> [UInt8] {
    var sent = 0
    var replies: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    // Reads replies while it writes, so neither side blocks the other.
    while replies.count < mark.count || !replies.suffix(mark.count).elementsEqual(mark) {
      var ready = pollfd(
        fd: socketDescriptor, events: Int16(POLLIN) | (sent < commands.count ? Int16(POLLOUT) : 0), revents: 0)
      guard unsafe poll(&ready, 1, 10_000) > 0 else { throw TestFailure("Redis does not answer") }
      if ready.revents & Int16(POLLOUT) != 0 {
        let count = unsafe commands.withUnsafeBytes { bytes in
          unsafe send(
            socketDescriptor, bytes.baseAddress?.advanced(by: sent), min(bytes.count - sent, 1 << 16),
            Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        }
        if count > 0 { sent += count }
      }
      if ready.revents & Int16(POLLIN | POLLHUP) != 0 {
        let count = unsafe recv(socketDescriptor, &buffer, buffer.count, 0)
        guard count > 0 else { throw TestFailure("Redis hung up") }
        replies += buffer[..<count]
      }
    }
    return replies
  }
}
