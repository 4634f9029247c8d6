import CLinux
import Glibc

/// The descriptors under watch: an epoll instance and, by descriptor number, who owns the newest watch over it.
///
/// Level-triggered: what was not read or accepted yet is reported again, so an owner may stop half-way for fairness.
@safe
struct Watches: ~Copyable {
  private struct Entry {
    var generation: UInt32 = 0
    var handler: (any ReadinessHandler)?
  }

  private let epoll: Int32
  private var entries: [Entry] = []
  private let events: UnsafeMutablePointer<epoll_event>

  /// Events taken from the kernel at once; more wait for the next turn.
  private static let eventCapacity = 256

  init() throws(LoopError) {
    let descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard descriptor >= 0 else { throw LoopError(call: "epoll_create1", code: errno) }
    epoll = descriptor
    unsafe events = .allocate(capacity: Watches.eventCapacity)
    unsafe events.initialize(repeating: epoll_event(), count: Watches.eventCapacity)
  }

  deinit {
    closeDescriptor(epoll)
    unsafe events.deallocate()
  }

  mutating func add(
    _ fileDescriptor: Int32, interest: Readiness, handler: any ReadinessHandler
  ) throws(LoopError) -> Registration {
    precondition(fileDescriptor >= 0, "a descriptor is watched while it is open")
    let index = Int(fileDescriptor)
    while entries.count <= index { entries.append(Entry()) }
    precondition(entries[index].handler == nil, "a descriptor has one watch")
    entries[index].generation &+= 1
    let registration = Registration(fileDescriptor: fileDescriptor, generation: entries[index].generation)
    guard control(EPOLL_CTL_ADD, registration, interest) else { throw LoopError(call: "epoll_ctl", code: errno) }
    entries[index].handler = handler
    return registration
  }

  /// Changes what the owner wants to hear of.
  mutating func change(_ registration: Registration, interest: Readiness) {
    precondition(isLive(registration), "a watch is changed while it lasts")
    precondition(control(EPOLL_CTL_MOD, registration, interest), "epoll_ctl refused a change")
  }

  /// Hears nothing of the descriptor, not even of its end, until `resume`: the watch itself stays.
  mutating func suspend(_ registration: Registration) {
    precondition(isLive(registration), "a watch is suspended while it lasts")
    _ = control(EPOLL_CTL_DEL, registration, [])
  }

  mutating func resume(_ registration: Registration, interest: Readiness) -> Bool {
    precondition(isLive(registration), "a watch is resumed while it lasts")
    return control(EPOLL_CTL_ADD, registration, interest)
  }

  /// Ends a watch. The caller closes the descriptor.
  mutating func remove(_ registration: Registration) {
    precondition(isLive(registration), "a watch ends once")
    _ = control(EPOLL_CTL_DEL, registration, [])
    entries[Int(registration.fileDescriptor)].handler = nil
    entries[Int(registration.fileDescriptor)].generation &+= 1
  }

  /// Waits for readiness; returns how many events there are to look at.
  mutating func wait(milliseconds: Int32) -> Int {
    let count = unsafe epoll_wait(epoll, events, Int32(Watches.eventCapacity), milliseconds)
    // EINTR: a signal is no event. Anything else would be a descriptor that we misused.
    precondition(count >= 0 || errno == EINTR, "epoll_wait failed")
    return max(0, Int(count))
  }

  /// The owner of event `index` of the last wait; nil where its watch ended in the meantime.
  func event(_ index: Int) -> (handler: any ReadinessHandler, readiness: Readiness)? {
    let event = unsafe events[index]
    let registration = unsafe Registration(packed: event.data.u64)
    let slot = Int(registration.fileDescriptor)
    guard slot < entries.count, entries[slot].generation == registration.generation,
      let handler = entries[slot].handler
    else { return nil }
    return (handler, unsafe Readiness(rawValue: event.events))
  }

  /// Ends every watch; returns who owned them.
  mutating func removeAll() -> [any ReadinessHandler] {
    let handlers = entries.compactMap(\.handler)
    entries.removeAll()
    return handlers
  }

  private func isLive(_ registration: Registration) -> Bool {
    let index = Int(registration.fileDescriptor)
    return index < entries.count && entries[index].generation == registration.generation
      && entries[index].handler != nil
  }

  private func control(_ operation: Int32, _ registration: Registration, _ interest: Readiness) -> Bool {
    var event = unsafe epoll_event()
    unsafe event.events = interest.rawValue
    unsafe event.data.u64 = registration.packed
    return unsafe epoll_ctl(epoll, operation, registration.fileDescriptor, &event) == 0
  }
}
