/// The sound of a push.
public struct Sound: Hashable, Sendable {
  private enum Kind: Hashable, Sendable {
    case named(String)
    case critical(String, volume: Double)
  }

  private let kind: Kind

  private init(_ kind: Kind) {
    self.kind = kind
  }

  /// The system's sound.
  public static let `default` = Sound(.named("default"))

  /// A file in the app's bundle or its `Library/Sounds`.
  public static func named(_ file: String) -> Sound { Sound(.named(file)) }

  /// Plays even on a muted device; the app needs Apple's entitlement. Throws `NotificationError.volume` outside 0 to 1.
  public static func critical(_ file: String = "default", volume: Double = 1) throws(NotificationError) -> Sound {
    guard volume >= 0 && volume <= 1 else { throw .volume(volume) }
    return Sound(.critical(file, volume: volume))
  }
}

extension Sound: Encodable {
  private enum Key: String, CodingKey {
    case critical, name, volume
  }

  /// Writes the value of `sound`.
  public func encode(to encoder: any Encoder) throws {
    switch kind {
    case .named(let file):
      var container = encoder.singleValueContainer()
      try container.encode(file)
    case .critical(let file, let volume):
      var container = encoder.container(keyedBy: Key.self)
      try container.encode(1, forKey: .critical)
      try container.encode(file, forKey: .name)
      try container.encode(volume, forKey: .volume)
    }
  }
}

/// How much a push may interrupt.
public enum InterruptionLevel: String, Encodable, Hashable, Sendable {
  /// Is added to the list, without light or sound.
  case passive
  /// Lights the screen, and may play a sound.
  case active
  /// Also breaks through a focus that allows it.
  case timeSensitive = "time-sensitive"
  /// Also plays a sound on a muted device. Needs Apple's entitlement.
  case critical
}
