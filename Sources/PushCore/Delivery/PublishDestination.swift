/// Where a lane publishes. Each refuses for itself.
package enum PublishDestination: Int, CaseIterable, Sendable {
  case results, retries, deadLetters, isolated, expansions
}
