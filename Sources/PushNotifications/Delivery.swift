public import Foundation

/// `apns-priority` of kinds that take all three.
public enum Priority: Int, Hashable, Sendable {
  /// At once.
  case immediate = 10
  /// With consideration for the device's battery; may be put off and grouped.
  case considerate = 5
  /// Battery first; never wakes the device.
  case low = 1
}

/// `apns-priority` of kinds that do not take 1: location, and Live Activities (where 10 counts against a budget).
public enum LivePriority: Int, Hashable, Sendable {
  /// At once.
  case immediate = 10
  /// With consideration for the device's battery.
  case considerate = 5
}

/// Until when APNs keeps a push for a device that is away.
public enum Expiration: Hashable, Sendable {
  /// As APNs does by itself: up to 30 days. In a broadcast: not stored.
  case apnsDefault
  /// One try; nothing is stored.
  case notStored
  /// Until this moment, which ends Herald's retries as well.
  case at(Date)

  /// `expiration` of the job; nil where it has none.
  var unixSeconds: Int64? {
    switch self {
    case .apnsDefault: nil
    case .notStored: 0
    // 0 would mean something else than a moment long ago.
    case .at(let date): max(1, date.unixSeconds)
    }
  }
}

extension Date {
  /// Whole Unix seconds, as APNs counts. A date that no 64 bits hold becomes the nearest that they do.
  var unixSeconds: Int64 {
    let seconds = timeIntervalSince1970.rounded(.down)
    return seconds.isNaN ? 0 : Int64(exactly: seconds) ?? (seconds < 0 ? .min : .max)
  }

  /// Whole Unix milliseconds.
  var unixMilliseconds: Int64 {
    let milliseconds = (timeIntervalSince1970 * 1000).rounded(.down)
    return milliseconds.isNaN ? 0 : Int64(exactly: milliseconds) ?? (milliseconds < 0 ? .min : .max)
  }
}

/// `apns-collapse-id`: 1 to 64 bytes.
public struct CollapseID: Hashable, Sendable {
  /// As it is sent.
  public let text: String

  /// Throws `NotificationError.collapseID` for an empty text, one over 64 bytes, or one with control characters.
  public init(_ text: String) throws(NotificationError) {
    let isPlain = text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } && !text.hasPrefix(" ") && !text.hasSuffix(" ")
    guard (1...64).contains(text.utf8.count), isPlain else { throw .collapseID(text) }
    self.text = text
  }
}
