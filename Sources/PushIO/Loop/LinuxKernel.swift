import CLinux
import Glibc
import PushCore

/// System calls, and an epoll instance.
///
/// Level-triggered: bytes that were not read and connections that were not accepted are reported again, so an owner may stop early for
/// fairness.
@safe
final class LinuxKernel: Kernel {
  private let epoll: Int32
  private let events: UnsafeMutablePointer<epoll_event>

  init() throws(LoopError) {
    let descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard descriptor >= 0 else { throw LoopError(call: "epoll_create1", code: errno) }
    epoll = descriptor
    unsafe events = .allocate(capacity: EventLoop.eventsMaximum)
    unsafe events.initialize(repeating: epoll_event(), count: EventLoop.eventsMaximum)
  }

  deinit {
    closeDescriptor(epoll)
    unsafe events.deallocate()
  }

  static var monotonic: Instant { Instant(nanoseconds: clockNanoseconds(CLOCK_MONOTONIC)) }
  static var unixMilliseconds: Int64 { clockNanoseconds(CLOCK_REALTIME) / 1_000_000 }

  var monotonicNanoseconds: Int64 { clockNanoseconds(CLOCK_MONOTONIC) }
  var unixMilliseconds: Int64 { LinuxKernel.unixMilliseconds }

  func makeSocket(for address: SocketAddress) -> Int32 {
    let descriptor = PushIO.makeSocket(for: address)
    return descriptor >= 0 ? descriptor : -errno
  }

  func listen(on address: SocketAddress, backlog: Int32) -> Int32 {
    let descriptor = PushIO.makeSocket(for: address)
    guard descriptor >= 0 else { return -errno }
    if !address.isUnix { setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, 1) }
    let code = unsafe address.withAddress { unsafe bind(descriptor, $0, $1) }
    guard code == 0, Glibc.listen(descriptor, backlog) == 0 else {
      let code = errno
      closeDescriptor(descriptor)
      return -code
    }
    return descriptor
  }

  func accept(_ fileDescriptor: Int32) -> Int32 {
    let accepted = accept4(fileDescriptor, nil, nil, closeOnExec | nonBlocking)
    return accepted >= 0 ? accepted : -errno
  }

  func adopt(_ fileDescriptor: Int32) { makeNonBlocking(fileDescriptor) }
  func localAddress(of fileDescriptor: Int32) -> SocketAddress? { SocketAddress(of: fileDescriptor, isLocal: true) }
  func peerAddress(of fileDescriptor: Int32) -> SocketAddress? { SocketAddress(of: fileDescriptor, isLocal: false) }

  func connect(_ fileDescriptor: Int32, to address: SocketAddress) -> Int32 {
    let code = unsafe address.withAddress { unsafe Glibc.connect(fileDescriptor, $0, $1) }
    return code == 0 ? 0 : -errno
  }

  func takeError(of fileDescriptor: Int32) -> Int32 { takeSocketError(fileDescriptor) }

  func tune(_ fileDescriptor: Int32, keepAliveSeconds: Int32) {
    tuneStream(fileDescriptor, keepAliveSeconds: keepAliveSeconds)
  }

  func receive(_ fileDescriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int {
    let count = unsafe recv(fileDescriptor, buffer.baseAddress, buffer.count, 0)
    return count >= 0 ? count : -Int(errno)
  }

  func send(_ fileDescriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    let count = unsafe Glibc.send(fileDescriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
    return count >= 0 ? count : -Int(errno)
  }

  func endWriting(_ fileDescriptor: Int32) { _ = shutdown(fileDescriptor, Int32(SHUT_WR)) }

  func close(_ fileDescriptor: Int32) { closeDescriptor(fileDescriptor) }

  func watch(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32 {
    control(EPOLL_CTL_ADD, fileDescriptor, interest, data)
  }

  func change(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32 {
    control(EPOLL_CTL_MOD, fileDescriptor, interest, data)
  }

  func unwatch(_ fileDescriptor: Int32) { _ = control(EPOLL_CTL_DEL, fileDescriptor, [], 0) }

  func wait(milliseconds: Int32) -> Int {
    let count = unsafe epoll_wait(epoll, events, Int32(EventLoop.eventsMaximum), milliseconds)
    // EINTR: a signal is not an event. Any other error means that we misused a descriptor.
    precondition(count >= 0 || errno == EINTR, "epoll_wait failed")
    return max(0, Int(count))
  }

  func event(_ index: Int) -> (data: UInt64, readiness: Readiness) {
    let event = unsafe events[index]
    return unsafe (event.data.u64, Readiness(rawValue: event.events))
  }

  func sleep(nanoseconds: Int64) {
    var rest = timespec(tv_sec: 0, tv_nsec: Int(nanoseconds))
    // A signal ends the sleep early, which costs only an extra turn.
    unsafe nanosleep(&rest, nil)
  }

  private func control(_ operation: Int32, _ fileDescriptor: Int32, _ interest: Readiness, _ data: UInt64) -> Int32 {
    var event = unsafe epoll_event()
    unsafe event.events = interest.rawValue
    unsafe event.data.u64 = data
    return unsafe epoll_ctl(epoll, operation, fileDescriptor, &event) == 0 ? 0 : -errno
  }
}
