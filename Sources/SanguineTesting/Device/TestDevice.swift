import Foundation
public import Sanguine
import Synchronization

/// A device whose app can be launched, killed and launched again, with clocks that a test controls.
///
/// ```swift
/// let device = TestDevice(network: authority) { $0.register(schema) }
/// var client = try device.launch()
/// try client.perform(CompleteHabit(habit: id))
/// try device.kill()  // As `kill -9` does.
/// client = try device.launch()  // Performed operations are still visible.
/// ```
///
/// After ``kill()`` the old process can neither reach the network nor change the files that the
/// next one reads. The files are in the system's temporary folder, and are removed with the device
/// and its last client.
///
/// Launch and kill from one task at a time. Mutable state: `state`, guarded by its mutex.
public final class TestDevice: Sendable {
    /// Changes a configuration, for example by registering the app's schema.
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
    /// The clock that measures the device's waits.
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
    ///   - network: The network for its requests: an ``InMemoryAuthority``, or a ``FaultyNetwork``
    ///     in front of it.
    ///   - clock: The time of day. Default: a new clock.
    ///   - delay: The clock that measures waits. Default: a new clock.
    ///   - seed: The seed of ids and jitter; each device needs a different one.
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

    /// The client of the running process, or `nil` if none is running.
    public var client: SanguineClient? { state.withLock { $0.process?.client } }

    /// The number of launches of the app.
    public var launches: Int { state.withLock { Int($0.launches) } }

    /// Launches the app, after killing the running one.
    ///
    /// - Returns: A client that continues from the device's disk.
    /// - Throws: The error of the client, or of the file system.
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
        // A different seed for each launch, because a new process does not repeat the ids of the
        // last one.
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

    /// Kills the running app, like `kill -9`; does nothing if none is running.
    ///
    /// Its pending requests may or may not have arrived. Callers that wait for the old client
    /// receive `SanguineError.closed` or `SanguineError.cancelled`.
    ///
    /// - Throws: An error if its files cannot be read.
    public func kill() throws {
        guard let process = state.withLock({ $0.process.take() }) else { return }
        // Copy the disk before the process can notice that the network is gone.
        process.lifeline.freeze()
        defer { end(process) }
        let folder = try process.folder.copy()
        state.withLock { $0.folder = folder }
    }

    /// Returns the names of the files on the device's disk that contain the text.
    ///
    /// Use it to check that a sign-out leaves no data of the user:
    ///
    /// ```swift
    /// #expect(try device.files(with: "ada@example.org").isEmpty)
    /// ```
    ///
    /// - Parameter text: The text to search for, as UTF-8.
    /// - Returns: The paths in the client's folder, sorted.
    /// - Throws: An error if the files cannot be read, or never stop changing.
    public func files(with text: String) throws -> [String] {
        try state.withLock { $0.folder }?.files(with: text) ?? []
    }

    /// Quits the app by closing its client.
    public func quit() { stop() }

    private func stop() {
        if let process = state.withLock({ $0.process.take() }) { end(process) }
    }

    private func end(_ process: Process) {
        process.lifeline.cut()
        process.client.close()
    }
}
