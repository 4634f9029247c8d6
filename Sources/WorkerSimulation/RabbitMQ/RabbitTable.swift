/// A field table of AMQP 0-9-1: names and values in wire order.
package struct RabbitTable: Equatable, Sendable {
  package struct Field: Equatable, Sendable {
    package var name: [UInt8]
    package var value: RabbitValue
  }

  package var fields: [Field] = []

  package init() {}

  package subscript(name: String) -> RabbitValue? {
    get { fields.first { $0.name.elementsEqual(name.utf8) }?.value }
    set {
      let index = fields.firstIndex { $0.name.elementsEqual(name.utf8) }
      switch (index, newValue) {
      case (let index?, let value?): fields[index].value = value
      case (let index?, nil): fields.remove(at: index)
      case (nil, let value?): fields.append(Field(name: Array(name.utf8), value: value))
      case (nil, nil): break
      }
    }
  }
}

/// A value of a field table. Numbers keep their type letter: a server that compares arguments names the type.
package indirect enum RabbitValue: Equatable, Sendable {
  case flag(Bool)
  case number(kind: UInt8, Int64)
  case timestamp(UInt64)
  case text([UInt8])
  case bytes([UInt8])
  case table(RabbitTable)
  case array([RabbitValue])
  /// Floats and decimals, kept undecoded.
  case opaque(kind: UInt8, [UInt8])
  case void

  package static func text(_ text: String) -> RabbitValue { .text(Array(text.utf8)) }
  /// A signed 64-bit number.
  package static func number(_ number: Int64) -> RabbitValue { .number(kind: UInt8(ascii: "l"), number) }

  package var number: Int64? {
    if case .number(_, let number) = self { return number }
    return nil
  }

  package var text: [UInt8]? {
    if case .text(let text) = self { return text }
    return nil
  }

  /// The server's name of the type.
  var kindName: String {
    switch self {
    case .flag: "bool"
    case .number(let kind, _):
      switch kind {
      case UInt8(ascii: "b"): "byte"
      case UInt8(ascii: "B"): "unsignedbyte"
      case UInt8(ascii: "s"): "short"
      case UInt8(ascii: "u"): "unsignedshort"
      case UInt8(ascii: "I"): "signedint"
      case UInt8(ascii: "i"): "unsignedint"
      default: "long"
      }
    case .timestamp: "timestamp"
    case .text: "longstr"
    case .bytes: "binary"
    case .table: "table"
    case .array: "array"
    case .opaque: "double"
    case .void: "void"
    }
  }

  /// As a server prints it in an error.
  var printed: String {
    switch self {
    case .flag(let flag): "\(flag)"
    case .number(_, let number): "\(number)"
    case .timestamp(let seconds): "\(seconds)"
    case .text(let text), .bytes(let text): String(decoding: text, as: UTF8.self)
    case .table, .array, .opaque, .void: "..."
    }
  }
}
