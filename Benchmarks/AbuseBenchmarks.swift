import Foundation
import NIOCore
import NIOPosix
import SanguineSQLite
import SanguineServer
import Synchronization

/// What one honest user notices of an attack: the same server and the same requests, without it and
/// with it.
///
/// The server is a process of its own, at its default limits or with few open files, and nobody
/// reads its log. The victim comes from one address, the attackers from another.
enum AbuseBenchmarks {
    static let serverArgument = "--abuse-server"
    /// What the server may have in memory under any of the attacks, in MB.
    static let memory = 512.0
    /// How much longer a hundredth of the victim's answers may take.
    static let slowdown = 3.0

    private static let victims = 4

    private struct Measured {
        let alone: LoadGenerator.Outcome
        let attacked: LoadGenerator.Outcome
        let megabytes: Double
    }

    /// Measures the attacks.
    ///
    /// - Parameter text: Only those with the text in their name. Default: all.
    /// - Returns: The figures.
    /// - Throws: ``BenchmarkError`` if the victim is not answered.
    static func run(only text: String?) async throws -> [Figure] {
        LiveServers.raiseDescriptorLimit()
        if let leftOut = UpstreamAttacks.leftOut { print(leftOut) }
        let attacks = Attack.all.filter { attack in text.map { attack.name.contains($0) } ?? true }
        var figures: [Figure] = []
        for openFiles in [nil, 1_024] {
            // Few open files change nothing of what is asked of a model.
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
                of: "the victim alone",
                measured.alone.percentile(part),
                atMost: part == 99 ? slowdown : nil
            )
        } + [
            Figure(
                cost: "\(name): memory",
                measured.megabytes,
                unit: "MB",
                of: "the bound",
                memory,
                atMost: 1
            )
        ]
    }

    private static func measure(_ attack: Attack, _ openFiles: Int?) async throws -> Measured {
        let log = Pipe()  // Which nobody reads.
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
        // On one thread a victim's answers would wait for the attackers' requests.
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let attackers = MultiThreadedEventLoopGroup(numberOfThreads: 1)
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

    /// Reads the balance, and spends.
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

    /// Serves in this process until it is ended, if it was started to; returns whether it was.
    ///
    /// The argument may have the port of a language model after it.
    static func serveIfAsked() async throws -> Bool {
        let words = CommandLine.arguments.dropFirst().first?.split(separator: "=") ?? []
        guard words.first.map({ $0 == serverArgument }) ?? false else { return false }
        let folder = folder(of: ProcessInfo.processInfo.processIdentifier)
        var settings = ServerSettings()
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
            // Open files outlive their names: nothing is left when the process is ended. Files that
            // are uploaded need the folder.
            if model == nil { try? FileManager.default.removeItem(at: folder) }
            try? FileHandle.standardOutput.write(contentsOf: Data("\(ports.http)\n".utf8))
        }
        try await server.run()
        return true
    }
}
