// swift-tools-version: 6.2
import PackageDescription

/// Every target of Herald: Swift 6 mode, warnings are errors, unsafe code is spelled out, imports and existentials are explicit.
let strict: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .strictMemorySafety(),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  // An async function runs where its caller runs: a request of the gateway stays on its event loop without asking the runtime at each call.
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
  // A lane is one thread, and yet its objects check at run time, for every field, that nobody else is at it: a twelfth of its
  // CPU. Debug builds, on which all tests run, check; release builds do not.
  .unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release)),
]

/// `make test` sets this variable: its build is optimised and keeps all checks, so that simulated worlds are several times faster. Other
/// debug builds are for debuggers.
let optimized: [SwiftSetting] =
  Context.environment["OPTIMIZED_TESTS"] == nil
  ? [] : [.unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))]

/// A target with the house's settings.
func module(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: strict + optimized)
}

func executable(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .executableTarget(
    name: name,
    dependencies: dependencies + [.product(name: "ArgumentParser", package: "swift-argument-parser")],
    swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

let package = Package(
  name: "herald",
  platforms: [.macOS(.v26)],
  products: [
    .executable(name: "herald", targets: ["herald"]),
    .executable(name: "apns-simulator", targets: ["apns-simulator"]),
    .executable(name: "herald-bench", targets: ["herald-bench"]),
    .library(name: "PushNotifications", targets: ["PushNotifications"]),
    .library(name: "PushChannels", targets: ["PushChannels", "PushNotifications"]),
    .library(name: "PushCore", targets: ["PushCore"]),
    .library(name: "APNsSimulator", targets: ["APNsSimulator"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/jpsim/Yams", from: "6.2.0"),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0", traits: []),
  ],
  targets: [
    // System libraries: a module map and a shim each, imported by PushIO alone; but for Lua, which herald does not need.
    .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CHiredis", pkgConfig: "hiredis", providers: [.apt(["libhiredis-dev"])]),
    .systemLibrary(name: "CRabbitMQ", pkgConfig: "librabbitmq", providers: [.apt(["librabbitmq-dev"])]),
    .systemLibrary(name: "CLinux"),
    .systemLibrary(name: "CLua", pkgConfig: "lua5.1", providers: [.apt(["liblua5.1-0-dev"])]),

    // PushCore decides, PushIO touches; each module below uses those above it and none beneath.
    module("PushCore"),
    module("PushIO", ["PushCore", "CNGHTTP2", "COpenSSL", "CHiredis", "CRabbitMQ", "CLinux"]),
    // What the operator wrote.
    module("PushSettings", ["PushCore", "PushIO", "Yams", .product(name: "Logging", package: "swift-log")]),
    // Keys, certificates and provider tokens: who may send what.
    module("PushCredentials", ["PushCore", "PushIO", "PushSettings"]),
    // What Swift producers write jobs with: typed notifications, by the same rules.
    module("PushNotifications", ["PushCore"]),
    // Apple's channel management: for Swift producers by public names, for the worker and the commands within the package.
    module("PushChannels", ["PushCore", "PushIO", "PushSettings", "PushCredentials", "PushNotifications"]),
    // The engine, in one module so that the compiler specialises it.
    module(
      "PushLane",
      [
        "PushCore", "PushIO", "PushSettings", "PushCredentials",
        .product(name: "BasicContainers", package: "swift-collections"),
        .product(name: "Logging", package: "swift-log"),
      ]),
    // What the fleet remembers off a job's way.
    module(
      "PushStores",
      [
        "PushCore", "PushIO", "PushSettings", "PushCredentials", "PushChannels", "PushLane",
        .product(name: "Logging", package: "swift-log"),
      ]),
    // One process.
    module(
      "PushWorker",
      [
        "PushCore", "PushIO", "PushSettings", "PushCredentials", "PushLane", "PushStores",
        .product(name: "Logging", package: "swift-log"),
      ]),
    // What the commands do.
    module(
      "PushOperations",
      [
        "PushCore", "PushIO", "PushSettings", "PushCredentials", "PushChannels", "PushLane", "PushStores", "PushWorker",
        .product(name: "Logging", package: "swift-log"),
      ]),
    // What probes and Prometheus see.
    module(
      "PushFront",
      [
        "PushCore", "PushIO", "PushSettings", "PushStores", "PushWorker", "PushOperations",
        .product(name: "Hummingbird", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "UnixSignals", package: "swift-service-lifecycle"),
      ]),
    module("APNsSimulator", ["PushCore", "PushIO"]),

    // A lane and a simulator with a fault between them: what herald-bench measures and the tests check.
    module("FaultTable", ["PushCore", "PushIO", "PushSettings", "PushCredentials", "PushLane", "APNsSimulator"]),

    // A lane in a simulated world, from a seed, and an auditor: what herald-bench plays for hours and the tests for seconds.
    module("LaneSimulation", ["PushCore", "PushSettings", "PushCredentials", "PushLane"]),

    // Runs Redis scripts in Lua, for the simulated Redis alone.
    module("LuaInterpreter", ["PushCore", "CLua"]),
    // Whole workers over a simulated network, clock and servers, from a seed, down to the bytes.
    module(
      "WorkerSimulation",
      [
        "LuaInterpreter",
        "PushCore", "PushIO", "PushSettings", "PushCredentials", "PushChannels", "PushLane", "PushStores",
        "PushOperations", "APNsSimulator",
        .product(name: "Logging", package: "swift-log"),
      ]),

    executable(
      "herald",
      [
        "PushCore", "PushIO", "PushSettings", "PushCredentials", "PushChannels", "PushLane", "PushStores", "PushWorker",
        "PushOperations", "PushFront", .product(name: "Logging", package: "swift-log"),
      ]),
    executable("apns-simulator", ["APNsSimulator", "PushCore", "PushIO"]),
    // What Herald costs.
    module(
      "Measurements",
      [
        "PushCore", "PushIO", "PushSettings", "PushCredentials", "PushLane", "PushStores", "PushWorker", "CAllocations",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "BasicContainers", package: "swift-collections"),
        .product(name: "Logging", package: "swift-log"),
      ]),
    // Counts a lane's allocations: part of the measurements, of nothing else.
    .target(name: "CAllocations"),
    // The measurements, the fault table and the simulations.
    executable(
      "herald-bench", ["Measurements", "FaultTable", "LaneSimulation", "WorkerSimulation", "PushIO", "PushCore"]),
    // The measurements alone: a release build without the simulations.
    executable("herald-measure", ["Measurements", "PushCore"]),

    // Private servers, processes and certificates for the tests.
    .target(name: "TestSupport", dependencies: ["PushCore", "PushIO"], path: "Tests/Support", swiftSettings: strict),
    tests("PushCoreTests", ["PushCore", "TestSupport"]),
    tests("NotificationTests", ["PushCore", "PushNotifications", "TestSupport"]),
    tests(
      "SimulationTests",
      [
        "LaneSimulation", "LuaInterpreter", "WorkerSimulation", "PushCore", "PushIO", "PushSettings", "PushCredentials",
        "PushLane",
        "PushStores", "PushWorker", "TestSupport",
      ]),
    tests("PushIOTests", ["PushCore", "PushIO", "TestSupport"]),
    // Hostile bytes; scripts/fuzz builds the same targets for libFuzzer, with an entry that is no part of the package.
    .testTarget(
      name: "FuzzTests", dependencies: ["PushCore", "PushIO"], exclude: ["LibFuzzer"], swiftSettings: strict),
    tests(
      "WorkerTests",
      [
        "PushCore", "PushIO", "PushSettings", "PushCredentials", "PushChannels", "PushLane", "PushStores", "PushWorker",
        "PushOperations", "PushFront", "APNsSimulator", "FaultTable", "TestSupport",
        .product(name: "Logging", package: "swift-log"),
      ]),
    tests(
      "IntegrationTests",
      [
        "PushCore", "PushIO", "PushSettings", "PushCredentials", "PushNotifications", "PushChannels", "PushLane",
        "PushStores", "PushWorker", "PushOperations", "APNsSimulator", "WorkerSimulation", "TestSupport",
        .product(name: "Logging", package: "swift-log"),
      ]),
    // Sees what other packages see: public names only.
    .testTarget(
      name: "OutsideTests", dependencies: ["APNsSimulator", "PushChannels", "PushNotifications"], packageAccess: false,
      swiftSettings: strict),
  ])
