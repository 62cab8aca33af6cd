import Foundation
import NIOCore
import NIOPosix
import SanguineSQLite
import SanguineServer
import Synchronization

/// The effect of an attack on one honest user: the same requests to the same server, with and
/// without it.
///
/// The server is a separate process, with its default limits or few open files, and its log is not
/// read. The victim and the attackers use different addresses.
enum AbuseBenchmarks {
    static let serverArgument = "--abuse-server"
    /// The maximum memory that the server may use during an attack, in MB.
    static let memory = 512.0
    /// The factor by which the victim's 99th percentile may grow.
    static let slowdown = 3.0

    private static let victims = 4

    private struct Measured {
        let alone: LoadGenerator.Outcome
        let attacked: LoadGenerator.Outcome
        let megabytes: Double
    }

    /// Measures the attacks.
    ///
    /// - Parameter text: Selects the attacks with the text in their name. All by default.
    /// - Returns: The figures.
    /// - Throws: ``BenchmarkError`` if a request of the victim fails.
    static func run(only text: String?) async throws -> [Figure] {
        LiveServers.raiseDescriptorLimit()
        if let leftOut = UpstreamAttacks.leftOut { print(leftOut) }
        let attacks = Attack.all.filter { attack in text.map { attack.name.contains($0) } ?? true }
        var figures: [Figure] = []
        for openFiles in [nil, 1_024] {
            // The limit of open files does not affect attacks on a model.
            for attack in attacks where openFiles == nil || attack.victim == nil {
                let measured = try await measure(attack, openFiles)
                let name = attack.name + (openFiles.map { ", \($0) open files" } ?? "")
                figures += Self.figures(name, measured)
                for figure in figures.suffix(4) {
                    print(
                        figure.name,
                        Figure.short(figure.baselineValue),
                        "→",
                        Figure.short(figure.value),
                        figure.unit
                    )
                }
            }
        }
        return figures
    }

    private static func figures(_ name: String, _ measured: Measured) -> [Figure] {
        [50, 95, 99].map { part in
            Figure(
                cost: "\(name): p\(part)",
                measured.attacked.percentile(part),
                unit: "ms",
                of: "the victim without an attack",
                measured.alone.percentile(part),
                atMost: part == 99 ? slowdown : nil
            )
        } + [
            Figure(
                cost: "\(name): memory",
                measured.megabytes,
                unit: "MB",
                of: "the limit",
                memory,
                atMost: 1
            )
        ]
    }

    private static func measure(_ attack: Attack, _ openFiles: Int?) async throws -> Measured {
        let log = Pipe()  // This log is not read.
        let model = attack.victim == nil ? nil : try FunctionServers.upstream()
        defer { model?.end() }
        let child = try LiveServers.Child(
            serverArgument + (model.map { "=\($0.port)" } ?? ""),
            openFiles: openFiles,
            errors: log
        )
        defer {
            child.end()
            let folder = folder(of: child.process.processIdentifier)
            try? FileManager.default.removeItem(at: folder)
        }
        // On a shared thread, the victim's responses would wait for the attackers' requests.
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let attackers = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        try await yieldToOthers(attackers.next())
        let target = try await AttackedServer(port: child.port, group: attackers)
        let victim = try await LiveBenchmarks.signIn(number: 1, port: child.port)
        try await attack.prepare(target)
        let requests = (attack.victim ?? spender).requests
        func probe(for time: Duration) async throws -> LoadGenerator.Outcome {
            let run = requests(victim, UUID().uuidString)
            return try await Self.probe(child.port, group, time, run)
        }
        _ = try await probe(for: .seconds(1))
        let alone = try await probe(for: .seconds(3))
        let measured = try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await attack.run(target) }
            try await ContinuousClock().sleep(for: .seconds(1))
            let process = child.process.processIdentifier
            let peak = Mutex(0.0)
            tasks.addTask {
                while !Task.isCancelled {
                    let now = try MemoryBenchmarks.residentMegabytes(process)
                    peak.withLock { $0 = max($0, now) }
                    try await ContinuousClock().sleep(for: .milliseconds(200))
                }
            }
            let attacked = try await probe(for: .seconds(4))
            tasks.cancelAll()
            while let result = await tasks.nextResult() {
                if case .failure(let error) = result, !(error is CancellationError) { throw error }
            }
            return Measured(
                alone: alone,
                attacked: attacked,
                megabytes: peak.withLock { $0 }
            )
        }
        try await target.leave()
        try await attackers.shutdownGracefully()
        try await group.shutdownGracefully()
        return measured
    }

    /// Lowers the priority of the attackers' thread on Linux: real attackers use other machines.
    private static func yieldToOthers(_ loop: any EventLoop) async throws {
        #if os(Linux)
        try await loop.submit {
            // On Linux, 0 stands for the calling thread, not for the process.
            _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 19)
        }
        .get()
        #endif
    }

    /// Reads the balance and spends in turn.
    private static let spender = Attack.Victim { token, run in
        { connection, number in
            number.isMultiple(of: 2)
                ? HTTPBenchmarks.balance(token)
                : HTTPBenchmarks.spend(token, key: "\(run)-\(connection)-\(number)")
        }
    }

    private static func probe(
        _ port: Int,
        _ group: any EventLoopGroup,
        _ time: Duration,
        _ request: @escaping LoadGenerator.Request
    ) async throws -> LoadGenerator.Outcome {
        let generator = LoadGenerator(
            port: port,
            connections: victims,
            group: group,
            pace: .milliseconds(10)
        )
        let outcome = try await generator.run(for: time, expecting: "200", request)
        guard outcome.failed == 0 else { throw BenchmarkError.refused(outcome.failed) }
        return outcome
    }

    private static func folder(of process: Int32) -> URL {
        FileManager.default.temporaryDirectory.appending(path: "sanguine-abuse-\(process)")
    }

    /// Serves in this process until it is terminated, if its argument says so.
    ///
    /// The argument may include the port of a language model. Returns whether this process served.
    static func serveIfAsked() async throws -> Bool {
        let words = CommandLine.arguments.dropFirst().first?.split(separator: "=") ?? []
        guard words.first.map({ $0 == serverArgument }) ?? false else { return false }
        let folder = folder(of: ProcessInfo.processInfo.processIdentifier)
        var settings = ServerSettings()
        settings.limits.guestsPerHour = 0
        settings.http.port = 0
        settings.accounts.grant = 1_000_000
        let model = words.dropFirst().first.flatMap { Int($0) }
        if let model { UpstreamAttacks.configure(&settings, model: model) }
        let log = LogQueue(sink: StandardStream.error)
        let server = try await SanguineServer(
            storage: try SQLiteStorage(folder: folder),
            keys: KeyFile.loadOrCreate(in: folder),
            settings: settings,
            log: log,
            logger: BenchmarkedServer.quiet
        ) { ports in
            // Removes the folder's name, so that nothing remains when the process is terminated.
            // Open files stay usable. Uploaded files need the folder.
            if model == nil { try? FileManager.default.removeItem(at: folder) }
            try? FileHandle.standardOutput.write(contentsOf: Data("\(ports.http)\n".utf8))
        }
        try await server.run()
        return true
    }
}
