/// The setup of a simulated Redis.
package struct SimulatedRedisSettings: Hashable, Sendable {
  package var host = "redis"
  package var port: UInt16 = 6379
  /// nil: no password.
  package var password: String?
  package var user = "default"
  /// The server's clock at time 0 of the world, Unix microseconds.
  package var unixMicroseconds: Int64 = 1_796_000_000_000_000
  package var databaseCount = 16
  /// In `INFO` and `HELLO`.
  package var version = "7.0.15"
  /// How long writes can be undone, nanoseconds.
  package var rememberedNanoseconds: Int64 = 10_000_000_000
  /// A hash with more fields or longer values is listed in no defined order (`hash-max-listpack-entries`, `-value`).
  package var listedFieldsMaximum = 128
  package var listedBytesMaximum = 64

  package init() {}
}
