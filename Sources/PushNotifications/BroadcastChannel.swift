/// A broadcast channel and whose it is: what `PushChannels` creates and lists, and what a broadcast goes to.
///
/// ```swift
/// struct Score: Encodable, Sendable {
///   var home: Int
///   var away: Int
/// }
///
/// let channel = BroadcastChannel(try ChannelID("dHN0LXNyY2gtY2hubA=="), of: "com.example.app")
/// let goal = LiveActivityUpdate(Score(home: 1, away: 0))
/// let job = try Job(broadcasting: goal, to: channel)
/// ```
public struct BroadcastChannel: Hashable, Sendable {
  /// As APNs gave it.
  public let id: ChannelID
  /// The bundle id of the app that the channel was created for.
  public let app: String
  /// Where it was created: the other environment does not know it.
  public let environment: Job.Environment

  /// Names a channel that exists; nothing is asked.
  public init(_ id: ChannelID, of app: String, environment: Job.Environment = .production) {
    self.id = id
    self.app = app
    self.environment = environment
  }
}
