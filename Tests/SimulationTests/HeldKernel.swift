import PushIO
import WorkerSimulation

/// A simulated kernel whose thread loses the processor while it waits: between the system call and what follows.
final class HeldKernel: Kernel {
  let inner: SimulatedKernel
  /// Called once, after the next wait looked at the sockets.
  var afterWait: (() -> Void)?

  init(_ inner: SimulatedKernel) { self.inner = inner }

  func wait(milliseconds: Int32) -> Int {
    let count = inner.wait(milliseconds: milliseconds)
    let held = afterWait
    afterWait = nil
    held?()
    return count
  }

  var monotonicNanoseconds: Int64 { inner.monotonicNanoseconds }
  var unixMilliseconds: Int64 { inner.unixMilliseconds }
  func makeSocket(for address: SocketAddress) -> Int32 { inner.makeSocket(for: address) }
  func listen(on address: SocketAddress, backlog: Int32) -> Int32 { inner.listen(on: address, backlog: backlog) }
  func accept(_ fileDescriptor: Int32) -> Int32 { inner.accept(fileDescriptor) }
  func adopt(_ fileDescriptor: Int32) { inner.adopt(fileDescriptor) }
  func localAddress(of fileDescriptor: Int32) -> SocketAddress? { inner.localAddress(of: fileDescriptor) }
  func peerAddress(of fileDescriptor: Int32) -> SocketAddress? { inner.peerAddress(of: fileDescriptor) }
  func connect(_ fileDescriptor: Int32, to address: SocketAddress) -> Int32 {
    inner.connect(fileDescriptor, to: address)
  }
  func takeError(of fileDescriptor: Int32) -> Int32 { inner.takeError(of: fileDescriptor) }
  func tune(_ fileDescriptor: Int32, keepAliveSeconds: Int32) {
    inner.tune(fileDescriptor, keepAliveSeconds: keepAliveSeconds)
  }
  func receive(_ fileDescriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int {
    unsafe inner.receive(fileDescriptor, into: buffer)
  }
  func send(_ fileDescriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    unsafe inner.send(fileDescriptor, bytes)
  }
  func endWriting(_ fileDescriptor: Int32) { inner.endWriting(fileDescriptor) }
  func close(_ fileDescriptor: Int32) { inner.close(fileDescriptor) }
  func watch(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32 {
    inner.watch(fileDescriptor, interest, data: data)
  }
  func change(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32 {
    inner.change(fileDescriptor, interest, data: data)
  }
  func unwatch(_ fileDescriptor: Int32) { inner.unwatch(fileDescriptor) }
  func event(_ index: Int) -> (data: UInt64, readiness: Readiness) { inner.event(index) }
  func sleep(nanoseconds: Int64) { inner.sleep(nanoseconds: nanoseconds) }
}
