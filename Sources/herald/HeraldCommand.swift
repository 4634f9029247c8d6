import ArgumentParser
import PushCore
import PushWorker

@main
struct HeraldCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "herald",
    abstract: "Sends push notifications from RabbitMQ to Apple's Push Notification service.",
    version: Herald.version,
    subcommands: [
      RunCommand.self, CheckCommand.self, SendCommand.self, EnqueueCommand.self, ResultsCommand.self,
      DeadLettersCommand.self, TokensCommand.self, ChannelsCommand.self, DevicesCommand.self, SegmentsCommand.self,
      JobsCommand.self, ActivitiesCommand.self, GatewayCommand.self, KeysCommand.self,
      PausesCommand.self, RevokeCommand.self, UnrevokeCommand.self,
    ])
}
