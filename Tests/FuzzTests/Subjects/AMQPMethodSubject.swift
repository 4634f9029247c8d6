import PushCore

@testable import PushIO

/// The payload of one method frame, through librabbitmq's decoder.
final class AMQPMethodSubject: FuzzSubject {
  private let codec = AMQPMethodCodec()

  init() {}

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    do {
      // In a copy of its own, so that the address sanitizer sees a read beyond its end.
      let method = try unsafe Array(bytes).withUnsafeBufferPointer { payload in
        unsafe try codec.decode(payload, channel: 1)
      }
      try holds("\(method)".utf8.count <= 4096 + 8 * bytes.count, "texts are no longer than what was sent")
    } catch let finding as FuzzFinding {
      throw finding
    } catch {
      try holds(!"\(error)".isEmpty, "an error says what is wrong")
    }
  }
}
