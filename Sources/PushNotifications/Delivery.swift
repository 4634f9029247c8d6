public import Foundation

/// `apns-priority` for kinds that allow all three.
public enum Priority: Int, Hashable, Sendable {
  /// At once.
  case immediate = 10
  /// Considers the device's battery; may be delayed and grouped.
  case considerate = 5
  /// Puts battery first; never wakes the device.
  case low = 1
}

/// `apns-priority` for kinds that do not allow 1: location, and Live Activities (for which 10 counts against a budget).
public enum LivePriority: Int, Hashable, Sendable {
  /// At once.
  case immediate = 10
  /// Considers the device's battery.
  case considerate = 5
}

/// How long APNs keeps a push for a device that is offline.
public enum Expiration: Hashable, Sendable {
  /// APNs' default: up to 30 days. In a broadcast: not stored.
  case apnsDefault
  /// One attempt; nothing is stored.
  case notStored
  /// Until this moment, which also ends Herald's retries.
  case at(Date)

  /// `expiration` of the job; nil if it has none.
  var unixSeconds: Int64? {
    switch self {
    case .apnsDefault: nil
    case .notStored: 0
    // 0 would have another meaning than a moment long ago.
    case .at(let date): max(1, date.unixSeconds)
    }
  }
}

extension Date {
  /// Whole Unix seconds, as APNs counts. A date beyond 64 bits becomes the nearest possible one.
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
  /// The text that is sent.
  public let text: String

  /// Throws `NotificationError.collapseID` for an empty text, one over 64 bytes, or one with control characters.
  public init(_ text: String) throws(NotificationError) {
    let isPlain = text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } && !text.hasPrefix(" ") && !text.hasSuffix(" ")
    guard (1...64).contains(text.utf8.count), isPlain else { throw .collapseID(text) }
    self.text = text
  }
}
