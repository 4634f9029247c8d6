import CLinux
import Glibc

/// What a descriptor is ready for, and what its owner wants to be told. The raw values are epoll's.
package struct Readiness: OptionSet, Sendable {
  package let rawValue: UInt32

  package init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  package static let readable = Readiness(rawValue: EPOLLIN.rawValue)
  package static let writable = Readiness(rawValue: EPOLLOUT.rawValue)
  /// The peer has ended its direction: nothing follows what can still be read.
  package static let peerEnded = Readiness(rawValue: EPOLLRDHUP.rawValue)
  /// All that a reader wants to be told.
  static let reading: Readiness = [.readable, .peerEnded]
  /// Both directions have ended. Always reported.
  package static let hangUp = Readiness(rawValue: EPOLLHUP.rawValue)
  /// The socket has a pending error. Always reported.
  package static let failed = Readiness(rawValue: EPOLLERR.rawValue)
}

/// The owner of a descriptor that the loop watches.
package protocol ReadinessHandler: AnyObject {
  /// The descriptor is ready. Called from `EventLoop.poll`.
  func becameReady(_ readiness: Readiness)

  /// The loop is being freed: close the descriptor, and call no delegate.
  func loopEnded()
}

/// Identifies one watch over one descriptor. A later watch over the same descriptor number has another generation, so events of the earlier
/// one are dropped.
package struct Registration: Hashable, Sendable {
  package let fileDescriptor: Int32
  package let generation: UInt32

  /// Both halves in one word: epoll's user data.
  var packed: UInt64 { UInt64(generation) << 32 | UInt64(UInt32(bitPattern: fileDescriptor)) }

  init(fileDescriptor: Int32, generation: UInt32) {
    self.fileDescriptor = fileDescriptor
    self.generation = generation
  }

  init(packed: UInt64) {
    fileDescriptor = Int32(bitPattern: UInt32(truncatingIfNeeded: packed))
    generation = UInt32(truncatingIfNeeded: packed >> 32)
  }
}
