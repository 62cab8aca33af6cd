import Foundation
public import Sanguine
import Synchronization

/// A device whose app is launched, killed and launched again, with clocks that a test moves.
///
/// ```swift
/// let device = TestDevice(network: authority) { $0.register(schema) }
/// var client = try device.launch()
/// try client.perform(CompleteHabit(habit: id))
/// try device.kill()  // As `kill -9` does.
/// client = try device.launch()  // What was done is there.
/// ```
///
/// After ``kill()`` nothing of the old process reaches the network, or what the next one finds on
/// its disk. The files lie in the system's temporary folder, and are removed with the device and
/// its last client.
///
/// Launch and kill from one task at a time. Mutable state: `state`, by its mutex.
public final class TestDevice: Sendable {
    /// Changes a configuration: the app's schema, say.
    public typealias Configure = @Sendable (inout SanguineClient.Configuration) -> Void

    private struct Process {
        let client: SanguineClient
        let lifeline: Lifeline
        let folder: DeviceFolder
    }

    private struct State {
        var folder: DeviceFolder?
        var process: Process?
        var launches: UInt64 = 0
    }

    /// The time of day on the device.
    public let clock: ManualWallClock
    /// What its waits are measured by.
    public let delay: ManualClock
    /// Whether the device sees a network.
    public let connectivity = ManualConnectivity()
    /// Whether the app is in the foreground.
    public let lifecycle = ManualLifecycle()

    private let network: any HTTPTransport
    private let seed: UInt64
    private let configure: Configure
    private let state = Mutex(State())

    /// Creates a device that was never used.
    ///
    /// - Parameters:
    ///   - network: What its requests go to: an ``InMemoryAuthority``, or a ``FaultyNetwork``
    ///     before it.
    ///   - clock: The time of day. Default: one of its own.
    ///   - delay: What waits are measured by. Default: one of its own.
    ///   - seed: Where ids and jitter come from; each device needs another one.
    ///   - configure: Changes the configuration before each launch, except for folder and network.
    ///     Default: the server is `http://sanguine.test`.
    public init(
        network: any HTTPTransport,
        clock: ManualWallClock = ManualWallClock(),
        delay: ManualClock = ManualClock(),
        seed: UInt64 = 1,
        configure: @escaping Configure = { _ in }
    ) {
        self.network = network
        self.clock = clock
        self.delay = delay
        self.seed = seed
        self.configure = configure
    }

    deinit { stop() }

    /// The client of the process that runs; `nil` if none does.
    public var client: SanguineClient? { state.withLock { $0.process?.client } }

    /// How often the app was launched.
    public var launches: Int { state.withLock { Int($0.launches) } }

    /// Launches the app, and kills the one that still runs.
    ///
    /// - Returns: A client that goes on from what is on the device's disk.
    /// - Throws: what the client throws, or the file system.
    @discardableResult
    public func launch() throws -> SanguineClient {
        try kill()
        let (folder, launches) = try state.withLock { state in
            let folder = try state.folder ?? DeviceFolder()
            state.folder = folder
            state.launches += 1
            return (folder, state.launches)
        }
        let lifeline = Lifeline(network, folder: folder)
        var configuration = SanguineClient.Configuration(
            server: URL(string: "http://sanguine.test")
        )
        configuration.clock = clock
        configuration.delay = delay
        configuration.connectivity = connectivity
        configuration.lifecycle = lifecycle
        // Another one for each launch: a process that repeats the ids of the last one is none.
        var seeds = SplitMix64(seed: seed)
        let launchSeed = (0..<launches).reduce(into: seed) { last, _ in last = seeds.next() }
        configuration.random = RandomSource(SplitMix64(seed: launchSeed))
        configure(&configuration)
        configuration.folder = folder.url
        configuration.transport =
            network is any StreamingTransport ? StreamingLifeline(lifeline: lifeline) : lifeline
        let client = try SanguineClient(configuration)
        state.withLock {
            $0.process = Process(client: client, lifeline: lifeline, folder: folder)
        }
        return client
    }

    /// Kills the app at this moment, as `kill -9` does; without one that runs nothing happens.
    ///
    /// What it has on its way may have arrived, or may not. Whoever waits for something of the old
    /// client gets `SanguineError.closed` or `SanguineError.cancelled`.
    ///
    /// - Throws: if its files cannot be read.
    public func kill() throws {
        guard let process = state.withLock({ $0.process.take() }) else { return }
        // Its last moment is on the disk before anyone in it learns that the network is gone.
        process.lifeline.freeze()
        defer { end(process) }
        let folder = try process.folder.copy()
        state.withLock { $0.folder = folder }
    }

    /// The names of the files on the device's disk that have the text in one of their bytes.
    ///
    /// To see that nothing of a user is left after a sign-out:
    ///
    /// ```swift
    /// #expect(try device.files(with: "ada@example.org").isEmpty)
    /// ```
    ///
    /// - Parameter text: What is looked for, as UTF-8.
    /// - Returns: Their paths in the client's folder, in their order.
    /// - Throws: if the files cannot be read, or are written all the time.
    public func files(with text: String) throws -> [String] {
        try state.withLock { $0.folder }?.files(with: text) ?? []
    }

    /// Ends the app in good order: it closes its client.
    public func quit() { stop() }

    private func stop() {
        if let process = state.withLock({ $0.process.take() }) { end(process) }
    }

    private func end(_ process: Process) {
        process.lifeline.cut()
        process.client.close()
    }
}
