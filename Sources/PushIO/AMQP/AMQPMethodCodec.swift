import CRabbitMQ
import PushCore

/// Encodes and decodes methods with librabbitmq's tables. Owns the pool for decoded tables, which is recycled at each call.
///
/// Frequent methods (deliver, ack, publish) allocate nothing.
@safe
final class AMQPMethodCodec {
  private let pool: UnsafeMutablePointer<amqp_pool_t>
  /// Where the last delivery was published to, if that is kept.
  private(set) var (exchange, routingKey) = ("", "")
  private let keepsAddresses: Bool

  private static let poolPageCount = 4096
  /// Maximum size of a method's arguments that we send, including its table.
  private static let argumentsMaximum = 16 * 1024
  /// Tables nested deeper are refused before the recursive decoder runs.
  private static let tableDepthMaximum = 8

  init(keepsAddresses: Bool = false) {
    self.keepsAddresses = keepsAddresses
    unsafe pool = .allocate(capacity: 1)
    unsafe init_amqp_pool(pool, AMQPMethodCodec.poolPageCount)
  }

  deinit {
    unsafe empty_amqp_pool(pool)
    unsafe pool.deallocate()
  }

  // MARK: decode

  /// Decodes the payload of a method frame.
  func decode(_ payload: UnsafeBufferPointer<UInt8>, channel: UInt16) throws(AMQPError) -> AMQPServerMethod {
    guard payload.count >= 4 else { throw .malformedMethod(id: 0) }
    let number =
      unsafe UInt32(payload[0]) << 24 | UInt32(payload[1]) << 16 | UInt32(payload[2]) << 8
      | UInt32(payload[3])
    guard let id = AMQPMethodID(rawValue: number) else { throw .unexpectedMethod(id: number, channel: channel) }
    let arguments = unsafe UnsafeBufferPointer(rebasing: payload[4...])
    unsafe recycle_amqp_pool(pool)
    switch id {
    case .basicDeliver:
      let deliver = unsafe try decoded(id, arguments, as: amqp_basic_deliver_t.self)
      if keepsAddresses {
        unsafe (exchange, routingKey) = (
          AMQPMethodCodec.text(deliver.exchange), AMQPMethodCodec.text(deliver.routing_key)
        )
      }
      return unsafe .deliver(tag: deliver.delivery_tag, isRedelivered: deliver.redelivered != 0)
    case .basicAck:
      let ack = unsafe try decoded(id, arguments, as: amqp_basic_ack_t.self)
      return .acknowledged(sequence: ack.delivery_tag, isMultiple: ack.multiple != 0)
    case .basicNack:
      let nack = unsafe try decoded(id, arguments, as: amqp_basic_nack_t.self)
      return .refused(sequence: nack.delivery_tag, isMultiple: nack.multiple != 0)
    case .basicReturn:
      let returned = unsafe try decoded(id, arguments, as: amqp_basic_return_t.self)
      return unsafe .returned(
        code: returned.reply_code, exchange: AMQPMethodCodec.text(returned.exchange),
        routingKey: AMQPMethodCodec.text(returned.routing_key))
    case .connectionStart:
      return unsafe try decodeStart(arguments)
    case .connectionTune:
      let tune = unsafe try decoded(id, arguments, as: amqp_connection_tune_t.self)
      return .connectionTune(
        channelMax: tune.channel_max, frameMax: tune.frame_max, heartbeatSeconds: tune.heartbeat)
    case .connectionOpenOK:
      return .connectionOpenOK
    case .connectionClose:
      let close = unsafe try decoded(id, arguments, as: amqp_connection_close_t.self)
      return unsafe .connectionClose(code: close.reply_code, text: AMQPMethodCodec.text(close.reply_text))
    case .connectionCloseOK:
      return .connectionCloseOK
    case .connectionBlocked:
      let blocked = unsafe try decoded(id, arguments, as: amqp_connection_blocked_t.self)
      return unsafe .connectionBlocked(reason: AMQPMethodCodec.text(blocked.reason))
    case .connectionUnblocked:
      return .connectionUnblocked
    case .channelOpenOK:
      return .channelOpenOK
    case .channelClose:
      let close = unsafe try decoded(id, arguments, as: amqp_channel_close_t.self)
      return unsafe .channelClose(code: close.reply_code, text: AMQPMethodCodec.text(close.reply_text))
    case .channelCloseOK:
      return .channelCloseOK
    case .channelFlow:
      let flow = unsafe try decoded(id, arguments, as: amqp_channel_flow_t.self)
      return .channelFlow(isActive: flow.active != 0)
    case .exchangeDeclareOK:
      return .exchangeDeclareOK
    case .exchangeDeleteOK:
      return .exchangeDeleteOK
    case .queueDeclareOK:
      let declared = unsafe try decoded(id, arguments, as: amqp_queue_declare_ok_t.self)
      return unsafe .queueDeclareOK(messageCount: declared.message_count, consumerCount: declared.consumer_count)
    case .queueBindOK:
      return .queueBindOK
    case .queueUnbindOK:
      return .queueUnbindOK
    case .queuePurgeOK:
      let purged = unsafe try decoded(id, arguments, as: amqp_queue_purge_ok_t.self)
      return .queuePurgeOK(messageCount: purged.message_count)
    case .queueDeleteOK:
      let deleted = unsafe try decoded(id, arguments, as: amqp_queue_delete_ok_t.self)
      return .queueDeleteOK(messageCount: deleted.message_count)
    case .basicQoSOK:
      return .qosOK
    case .basicConsumeOK:
      return .consumeOK
    case .basicCancelOK:
      return .cancelOK
    case .basicCancel:
      return .cancel
    case .confirmSelectOK:
      return .confirmSelectOK
    case .connectionStartOK, .connectionTuneOK, .connectionOpen, .channelOpen, .channelFlowOK, .exchangeDeclare,
      .exchangeDelete, .queueDeclare, .queueBind, .queueUnbind, .queuePurge, .queueDelete, .basicQoS, .basicConsume,
      .basicPublish,
      .basicReject, .confirmSelect:
      throw .unexpectedMethod(id: number, channel: channel)
    }
  }

  private func decodeStart(_ arguments: UnsafeBufferPointer<UInt8>) throws(AMQPError) -> AMQPServerMethod {
    let id = AMQPMethodID.connectionStart
    let bytes = unsafe arguments.span
    guard bytes.count > 2, AMQPTableReader.isShallow(bytes, at: 2, depthMaximum: AMQPMethodCodec.tableDepthMaximum)
    else { throw .malformedMethod(id: id.rawValue) }
    let start = unsafe try decoded(id, arguments, as: amqp_connection_start_t.self)
    guard unsafe start.version_major == 0 && start.version_minor == 9 else { throw .notAMQP }
    var server = "unknown"
    let table = unsafe start.server_properties
    for index in 0..<Int(unsafe table.num_entries) {
      let entry = unsafe table.entries[index]
      guard unsafe entry.value.kind == UInt8(ascii: "S") else { continue }
      switch unsafe AMQPMethodCodec.text(entry.key) {
      case "product": server = unsafe AMQPMethodCodec.text(entry.value.value.bytes)
      case "version": server += unsafe " " + AMQPMethodCodec.text(entry.value.value.bytes)
      default: break
      }
    }
    return unsafe .connectionStart(mechanisms: AMQPMethodCodec.text(start.mechanisms), server: server)
  }

  private func decoded<Method>(
    _ id: AMQPMethodID, _ arguments: UnsafeBufferPointer<UInt8>, as: Method.Type
  ) throws(AMQPError) -> Method {
    var result: UnsafeMutableRawPointer?
    let bytes = unsafe amqp_bytes_t(
      len: arguments.count, bytes: UnsafeMutableRawPointer(mutating: arguments.baseAddress))
    let status = unsafe amqp_decode_method(id.rawValue, pool, bytes, &result)
    guard status >= 0, let result = unsafe result else { throw .malformedMethod(id: id.rawValue) }
    return unsafe result.load(as: Method.self)
  }

  private static func text(_ bytes: amqp_bytes_t) -> String {
    unsafe String(decoding: UnsafeRawBufferPointer(start: bytes.bytes, count: bytes.len), as: UTF8.self)
  }

  // MARK: encode

  func appendProtocolHeader(to out: inout ByteQueue) {
    out.append("AMQP\u{0}\u{0}\u{9}\u{1}")
  }

  func appendHeartbeat(to out: inout ByteQueue) {
    out.append("\u{8}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}")
    out.append(AMQPFrame.endMark)
  }

  /// connection.start-ok with PLAIN.
  func appendStartOK(
    user: String, password: String, connectionName: String, productVersion: String, to out: inout ByteQueue
  ) {
    unsafe recycle_amqp_pool(pool)
    let capabilities = [
      "consumer_cancel_notify", "connection.blocked", "publisher_confirms", "basic.nack",
      "authentication_failure_close",
    ].map { AMQPArgument($0, .flag(true)) }
    let texts = [
      AMQPArgument("product", .text("Herald")), AMQPArgument("version", .text(productVersion)),
      AMQPArgument("platform", .text("Swift")), AMQPArgument("connection_name", .text(connectionName)),
    ]
    let properties = unsafe entries(texts, extra: 1)
    let nested = unsafe table(capabilities)
    unsafe properties[texts.count].key = bytes("capabilities")
    unsafe properties[texts.count].value.kind = UInt8(ascii: "F")
    unsafe properties[texts.count].value.value.table = nested
    var method = unsafe amqp_connection_start_ok_t()
    unsafe method.client_properties = amqp_table_t(num_entries: Int32(texts.count + 1), entries: properties)
    unsafe method.mechanism = bytes("PLAIN")
    unsafe method.response = bytes("\u{0}\(user)\u{0}\(password)")
    unsafe method.locale = bytes("en_US")
    unsafe append(.connectionStartOK, channel: 0, method, to: &out)
  }

  func appendTuneOK(_ tuning: AMQPTuning, to out: inout ByteQueue) {
    let method = amqp_connection_tune_ok_t(
      channel_max: tuning.channelMax, frame_max: tuning.frameMax, heartbeat: tuning.heartbeatSeconds)
    append(.connectionTuneOK, channel: 0, method, to: &out)
  }

  func appendOpen(virtualHost: String, to out: inout ByteQueue) {
    unsafe recycle_amqp_pool(pool)
    var method = unsafe amqp_connection_open_t()
    unsafe method.virtual_host = bytes(virtualHost)
    unsafe append(.connectionOpen, channel: 0, method, to: &out)
  }

  func appendClose(code: UInt16, text: String, to out: inout ByteQueue) {
    unsafe recycle_amqp_pool(pool)
    var method = unsafe amqp_connection_close_t()
    unsafe method.reply_code = code
    unsafe method.reply_text = bytes(text)
    unsafe append(.connectionClose, channel: 0, method, to: &out)
  }

  func appendConnectionCloseOK(to out: inout ByteQueue) {
    append(.connectionCloseOK, channel: 0, amqp_connection_close_ok_t(), to: &out)
  }

  func appendChannelCloseOK(channel: UInt16, to out: inout ByteQueue) {
    append(.channelCloseOK, channel: channel, amqp_channel_close_ok_t(), to: &out)
  }

  func appendFlowOK(isActive: Bool, channel: UInt16, to out: inout ByteQueue) {
    append(.channelFlowOK, channel: channel, amqp_channel_flow_ok_t(active: isActive ? 1 : 0), to: &out)
  }

  func appendAcknowledgement(upTo tag: UInt64, isMultiple: Bool, channel: UInt16, to out: inout ByteQueue) {
    append(.basicAck, channel: channel, amqp_basic_ack_t(delivery_tag: tag, multiple: isMultiple ? 1 : 0), to: &out)
  }

  func appendReject(_ tag: UInt64, requeue: Bool, channel: UInt16, to out: inout ByteQueue) {
    append(
      .basicReject, channel: channel, amqp_basic_reject_t(delivery_tag: tag, requeue: requeue ? 1 : 0), to: &out)
  }

  /// The arguments of basic.publish before the routing key, method number included.
  func publishPrefix(exchange: String) -> [UInt8] {
    unsafe recycle_amqp_pool(pool)
    var method = unsafe amqp_basic_publish_t()
    unsafe method.exchange = bytes(exchange)
    var frame = ByteQueue()
    unsafe append(.basicPublish, channel: 0, method, to: &frame)
    // Without the frame's header and end mark, the empty routing key and the flags.
    return frame.withBytes { (span) -> [UInt8] in
      (AMQPFrame.headerCount..<span.count - 3).map { span[$0] }
    }
  }

  func append(_ operation: AMQPOperation, channel: UInt16, to out: inout ByteQueue) {
    unsafe recycle_amqp_pool(pool)
    switch operation {
    case .openChannel:
      unsafe append(.channelOpen, channel: channel, amqp_channel_open_t(), to: &out)
    case .closeChannel:
      var method = unsafe amqp_channel_close_t()
      unsafe method.reply_code = 200
      unsafe append(.channelClose, channel: channel, method, to: &out)
    case .declareExchange(let name, let kind, let arguments):
      var method = unsafe amqp_exchange_declare_t()
      unsafe method.exchange = bytes(name)
      unsafe method.type = bytes(kind.rawValue)
      unsafe method.durable = 1
      unsafe method.arguments = table(arguments)
      unsafe append(.exchangeDeclare, channel: channel, method, to: &out)
    case .inspectExchange(let name):
      var method = unsafe amqp_exchange_declare_t()
      unsafe method.exchange = bytes(name)
      unsafe method.type = bytes("direct")
      unsafe method.passive = 1
      unsafe append(.exchangeDeclare, channel: channel, method, to: &out)
    case .declareQueue(let name, let arguments):
      var method = unsafe amqp_queue_declare_t()
      unsafe method.queue = bytes(name)
      unsafe method.durable = 1
      unsafe method.arguments = table(arguments)
      unsafe append(.queueDeclare, channel: channel, method, to: &out)
    case .inspectQueue(let name):
      var method = unsafe amqp_queue_declare_t()
      unsafe method.queue = bytes(name)
      unsafe method.passive = 1
      unsafe append(.queueDeclare, channel: channel, method, to: &out)
    case .bind(let queue, let exchange, let routingKey):
      var method = unsafe amqp_queue_bind_t()
      unsafe method.queue = bytes(queue)
      unsafe method.exchange = bytes(exchange)
      unsafe method.routing_key = bytes(routingKey)
      unsafe append(.queueBind, channel: channel, method, to: &out)
    case .unbind(let queue, let exchange, let routingKey):
      var method = unsafe amqp_queue_unbind_t()
      unsafe method.queue = bytes(queue)
      unsafe method.exchange = bytes(exchange)
      unsafe method.routing_key = bytes(routingKey)
      unsafe append(.queueUnbind, channel: channel, method, to: &out)
    case .purge(let queue):
      var method = unsafe amqp_queue_purge_t()
      unsafe method.queue = bytes(queue)
      unsafe append(.queuePurge, channel: channel, method, to: &out)
    case .deleteQueue(let name):
      var method = unsafe amqp_queue_delete_t()
      unsafe method.queue = bytes(name)
      unsafe append(.queueDelete, channel: channel, method, to: &out)
    case .deleteExchange(let name):
      var method = unsafe amqp_exchange_delete_t()
      unsafe method.exchange = bytes(name)
      unsafe append(.exchangeDelete, channel: channel, method, to: &out)
    case .prefetch(let count):
      precondition(count > 0, "a prefetch of 0 has no bound, or 2000 on a quorum queue: say how many")
      append(
        .basicQoS, channel: channel, amqp_basic_qos_t(prefetch_size: 0, prefetch_count: count, global: 0), to: &out)
    case .consume(let queue, let consumerTag, let arguments):
      var method = unsafe amqp_basic_consume_t()
      unsafe method.queue = bytes(queue)
      unsafe method.consumer_tag = bytes(consumerTag)
      unsafe method.arguments = table(arguments)
      unsafe append(.basicConsume, channel: channel, method, to: &out)
    case .cancel(let consumerTag):
      var method = unsafe amqp_basic_cancel_t()
      unsafe method.consumer_tag = bytes(consumerTag)
      unsafe append(.basicCancel, channel: channel, method, to: &out)
    case .selectConfirms:
      append(.confirmSelect, channel: channel, amqp_confirm_select_t(nowait: 0), to: &out)
    }
  }

  /// One method frame. A name over 255 bytes is our own error.
  private func append<Method>(_ id: AMQPMethodID, channel: UInt16, _ method: Method, to out: inout ByteQueue) {
    let frameStart = out.count
    out.append(AMQPFrame.Kind.method.rawValue)
    out.appendBigEndian(channel)
    out.appendBigEndian(UInt32(0))
    out.appendBigEndian(id.rawValue)
    var method = method
    let written = unsafe withUnsafeMutablePointer(to: &method) { pointer in
      unsafe out.appendUnsafe(capacity: AMQPMethodCodec.argumentsMaximum) { buffer in
        let target = unsafe amqp_bytes_t(len: buffer.count, bytes: UnsafeMutableRawPointer(buffer.baseAddress))
        let written = unsafe amqp_encode_method(id.rawValue, pointer, target)
        precondition(written >= 0, "an AMQP method did not fit: a name over 255 bytes?")
        return Int(written)
      }
    }
    out.replaceBigEndian(UInt32(4 + written), at: frameStart + 3)
    out.append(AMQPFrame.endMark)
  }

  /// A copy of the text in the pool.
  private func bytes(_ text: String) -> amqp_bytes_t {
    var result = unsafe amqp_bytes_t()
    let utf8 = Array(text.utf8)
    guard !utf8.isEmpty else { return unsafe result }
    unsafe amqp_pool_alloc_bytes(pool, utf8.count, &result)
    unsafe result.bytes.copyMemory(from: utf8, byteCount: utf8.count)
    return unsafe result
  }

  private func entries(
    _ arguments: [AMQPArgument], extra: Int = 0
  ) -> UnsafeMutablePointer<amqp_table_entry_t> {
    let count = arguments.count + extra
    let size = unsafe MemoryLayout<amqp_table_entry_t>.stride * max(count, 1)
    let memory = unsafe amqp_pool_alloc(pool, size)!.bindMemory(to: amqp_table_entry_t.self, capacity: count)
    for (index, argument) in arguments.enumerated() {
      var entry = unsafe amqp_table_entry_t()
      unsafe entry.key = bytes(argument.name)
      switch argument.value {
      case .text(let text):
        unsafe entry.value.kind = UInt8(ascii: "S")
        unsafe entry.value.value.bytes = bytes(text)
      case .number(let number):
        unsafe entry.value.kind = UInt8(ascii: "l")
        unsafe entry.value.value.i64 = number
      case .flag(let flag):
        unsafe entry.value.kind = UInt8(ascii: "t")
        unsafe entry.value.value.boolean = flag ? 1 : 0
      case .timestamp(let seconds):
        unsafe entry.value.kind = UInt8(ascii: "T")
        unsafe entry.value.value.u64 = seconds
      }
      unsafe memory[index] = entry
    }
    return unsafe memory
  }

  private func table(_ arguments: [AMQPArgument]) -> amqp_table_t {
    unsafe amqp_table_t(num_entries: Int32(arguments.count), entries: entries(arguments))
  }
}
