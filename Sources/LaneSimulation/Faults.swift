/// The rates of faults, in thousandths.
package struct Faults {
  /// Per step.
  package var consumerLost = 0
  /// Consumers are lost, come back, and are lost again, four times within two seconds, while APNs takes its time.
  package var consumersComeAndGo = 0
  package var publisherLost = 0
  package var brokerBlocked = 0
  package var queueFull = 0
  package var workerKilled = 0
  package var memoryForgets = 0
  /// The admission store is unreachable for a while.
  package var memoryAway = 0
  /// The admission store hangs for a while, and then executes everything that it was asked meanwhile.
  package var memoryFrozen = 0
  package var clockJumps = 0
  /// APNs takes 7 to 9 seconds for each answer, for a while.
  package var apnsSlow = 0
  /// APNs refuses streams for a while.
  package var apnsRefuses = 0
  package var connectionCut = 0
  package var connectionSilent = 0
  package var connectionGoesAway = 0
  /// SIGHUP with other limits, or another policy for jobs over them.
  package var limitsReloaded = 0
  package var credentialsReloaded = 0
  /// Per job.
  package var publishedTwice = 0
  /// Of jobs with a time of publishing: it was hours ago.
  package var hoursOld = 0
  /// Per retry copy.
  package var handedOnTwice = 0
  /// Per publish.
  package var publishRefused = 0
  package var confirmLate = 0
  /// Per acknowledgement.
  package var acknowledgementLate = 0
  /// Per request.
  package var serverError = 0
  package var lostAfterProcessing = 0
  package var lostBeforeProcessing = 0
  package var notProcessed = 0
  package var rejected = 0
  package var unregistered = 0
  package var tooManyRequests = 0
  /// Its stream stays silent, while others of its connection are answered.
  package var streamSilent = 0
  /// The answer comes after the request's timeout.
  package var answeredLate = 0
  /// For a device that registered again: APNs still reports the end of the earlier registration.
  package var unregisteredBefore = 0
  /// Per step: the registry of devices is away for a while, or a device is forgotten.
  package var registryAway = 0
  package var deviceForgotten = 0
  /// Of the tokens of the app with the bad campaign.
  package var campaignRejected = 0
  /// Per admission.
  package var memoryFailsOpen = 0
  package var overRate = 20

  /// No faults.
  package init() {}

  /// The main faults.
  package static var many: Faults {
    var faults = Faults()
    faults.consumerLost = 8
    faults.publisherLost = 8
    faults.brokerBlocked = 4
    faults.queueFull = 4
    faults.workerKilled = 3
    faults.memoryForgets = 1
    faults.clockJumps = 2
    faults.publishedTwice = 30
    faults.handedOnTwice = 100
    faults.publishRefused = 20
    faults.serverError = 30
    faults.lostAfterProcessing = 15
    faults.lostBeforeProcessing = 15
    faults.notProcessed = 30
    faults.rejected = 30
    faults.unregistered = 20
    faults.memoryFailsOpen = 20
    return faults
  }

  /// All known faults.
  package static var all: Faults {
    var faults = Faults.many
    faults.consumersComeAndGo = 2
    faults.memoryAway = 1
    faults.memoryFrozen = 2
    faults.apnsSlow = 2
    faults.apnsRefuses = 2
    faults.connectionCut = 2
    faults.connectionSilent = 1
    faults.connectionGoesAway = 3
    faults.limitsReloaded = 2
    faults.credentialsReloaded = 1
    faults.publishedTwice = 100
    faults.hoursOld = 60
    faults.confirmLate = 20
    faults.acknowledgementLate = 300
    faults.tooManyRequests = 10
    faults.streamSilent = 15
    faults.answeredLate = 10
    faults.unregisteredBefore = 300
    faults.campaignRejected = 600
    return faults
  }
}
