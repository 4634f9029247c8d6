/// Why a reader gets no outcomes.
package enum OutcomeRefusal: Error, Sendable {
  case tooManyReaders
  /// - Parameter maximum: of one key's readers at a time.
  case tooManyOfKey(maximum: Int)
  /// The app has its share of all readers.
  case tooManyOfApp
  /// `results.log` is false.
  case noLog
  /// RabbitMQ is not connected, or did not answer in time.
  case disconnected
  /// The reader wants to continue after an outcome that the log does not have yet.
  case beyondEnd
}
