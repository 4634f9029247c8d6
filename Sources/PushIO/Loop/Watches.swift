/// The watched descriptors: by descriptor number, the owner of the newest watch over it.
struct Watches: ~Copyable {
  private struct Entry {
    var generation: UInt32 = 0
    var handler: (any ReadinessHandler)?
  }

  private let kernel: any Kernel
  private var entries: [Entry] = []

  init(_ kernel: any Kernel) {
    self.kernel = kernel
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
    let code = kernel.watch(fileDescriptor, interest, data: registration.packed)
    guard code == 0 else { throw LoopError(call: "epoll_ctl", code: -code) }
    entries[index].handler = handler
    return registration
  }

  /// Changes what the owner wants to be told.
  mutating func change(_ registration: Registration, interest: Readiness) {
    precondition(isLive(registration), "a watch is changed while it lasts")
    let code = kernel.change(registration.fileDescriptor, interest, data: registration.packed)
    precondition(code == 0, "epoll_ctl refused a change")
  }

  /// Reports nothing about the descriptor, not even its end, until `resume`: the watch itself stays.
  mutating func suspend(_ registration: Registration) {
    precondition(isLive(registration), "a watch is suspended while it lasts")
    kernel.unwatch(registration.fileDescriptor)
  }

  mutating func resume(_ registration: Registration, interest: Readiness) -> Bool {
    precondition(isLive(registration), "a watch is resumed while it lasts")
    return kernel.watch(registration.fileDescriptor, interest, data: registration.packed) == 0
  }

  /// Ends a watch. The caller closes the descriptor.
  mutating func remove(_ registration: Registration) {
    precondition(isLive(registration), "a watch ends once")
    kernel.unwatch(registration.fileDescriptor)
    entries[Int(registration.fileDescriptor)].handler = nil
    entries[Int(registration.fileDescriptor)].generation &+= 1
  }

  /// The owner of event `index` of the last wait; nil if its watch ended meanwhile.
  func event(_ index: Int) -> (handler: any ReadinessHandler, readiness: Readiness)? {
    let event = kernel.event(index)
    let registration = Registration(packed: event.data)
    let slot = Int(registration.fileDescriptor)
    guard slot < entries.count, entries[slot].generation == registration.generation,
      let handler = entries[slot].handler
    else { return nil }
    return (handler, event.readiness)
  }

  /// Ends every watch; returns their owners.
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
}
