/// A port whose connections the kernel accepts and nothing reads: a service that hangs.
package import PushIO

package final class MuteServer: ListenerDelegate {
  // The loop never runs.
  private let loop: EventLoop
  private var listener: Listener?

  package init() throws {
    loop = try EventLoop()
    listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: self)
  }

  package var port: UInt16 { listener?.port ?? 0 }

  package func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {}
}
