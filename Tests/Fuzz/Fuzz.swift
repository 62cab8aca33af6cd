import ArgumentParser
import Foundation
import NIOPosix
import SanguineTesting

/// Sends invalid requests to a real server: changed bodies, and bytes that are not HTTP; or uploads
/// changed images and videos.
///
/// Each case follows from the seed and its number, so that a failed case can be repeated by itself.
@main
struct Fuzz: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fuzz",
        abstract: "Fuzz a server with random request bodies and random bytes.",
        discussion: """
            Exits with 1 if an answer had a status of 500 or more, if a connection was neither \
            answered nor closed, if the server died, or if its memory grew. With '--files', it \
            uploads changed files instead, and each refusal must have a documented code.
            """
    )

    @Option(help: "The seed of all cases. Default: a random one, which is printed.")
    var seed: UInt64?

    @Option(help: "The number of request bodies to send.")
    var bodies = 1_000_000

    @Option(help: "The number of byte streams to send, each on its own connection.")
    var streams = 1_000_000

    @Option(help: "The number of the only case to send; its bytes, or its file, are printed.")
    var only: Int?

    @Option(help: "Upload changed files of this folder, and send nothing else.")
    var files: String?

    @Option(help: "The duration of the uploads in seconds.")
    var seconds = 60.0

    @Option(help: "The allowed memory of the server during uploads, in MB.")
    var peak = 1_024.0

    @Option(help: "The number of concurrent connections.")
    var connections = 32

    @Option(help: "The program to start with 'serve'.")
    var server = ".build-release/release/sanguine"

    @Option(help: "The allowed growth of the server's memory after a tenth of the cases, in MB.")
    var growth = 96.0

    func validate() throws {
        guard seconds > 0 else { throw ValidationError("Set '--seconds' to a positive number.") }
        guard let files else { return }
        let names = (try? FileManager.default.contentsOfDirectory(atPath: files)) ?? []
        guard !names.isEmpty else {
            throw ValidationError("Set '--files' to a folder of images: run 'make uploads'.")
        }
    }

    func run() async throws {
        let seed = seed ?? .random(in: 0 ... .max)
        print("seed \(seed)")
        let server = try FuzzedServer(program: server)
        defer { server.end() }
        let tokens = try await server.signIn(4)
        if let files {
            let uploads = UploadFuzz(
                server: server,
                tokens: tokens,
                seed: seed,
                files: try UploadFuzz.files(in: files),
                connections: min(8, connections)
            )
            return try await play(uploads, server)
        }
        let target = FuzzTarget(port: server.port, tokens: tokens, seed: seed)
        if let only {
            for kind in FuzzCase.Kind.allCases {
                let outcome = await target.send(kind, only, isShown: true)
                print(kind.rawValue, outcome)
            }
            return
        }
        var failures: [String] = []
        for (kind, count) in [(FuzzCase.Kind.body, bodies), (.stream, streams)] where count > 0 {
            let warmUp = count / 10
            var tally = try await play(kind, 0..<warmUp, target, server)
            let before = try server.residentMegabytes()
            tally.add(try await play(kind, warmUp..<count, target, server))
            let after = try server.residentMegabytes()
            print("\(count) of \(kind.rawValue): \(tally)")
            print("memory \(Int(before)) MB after a tenth, \(Int(after)) MB at the end")
            failures += tally.failures
            if after - before > growth {
                failures.append("The memory grew by \(Int(after - before)) MB.")
            }
        }
        guard try await server.isLive() else { throw Failed(["The server does not answer."]) }
        guard failures.isEmpty else { throw Failed(failures) }
    }

    /// Uploads files for the given time, of which the first tenth warms up the server.
    private func play(_ uploads: UploadFuzz, _ server: FuzzedServer) async throws {
        if let only {
            let file = UploadCase(only, seed: uploads.seed, from: uploads.files)
            let url = FileManager.default.temporaryDirectory.appending(path: "upload-\(only).bin")
            try Data(file.bytes).write(to: url)
            print(file.name, url.path())
            print(await uploads.play(only))
            return
        }
        let warmUp = await uploads.run(seconds: seconds / 10)
        guard server.isRunning else { throw Failed(["The server died."] + warmUp.failures) }
        let before = try server.residentMegabytes()
        var tally = await uploads.run(
            seconds: seconds * 0.9,
            from: warmUp.counts.values.reduce(0, +)
        )
        tally.counts.merge(warmUp.counts, uniquingKeysWith: +)
        tally.failures += warmUp.failures
        guard server.isRunning else { throw Failed(["The server died."] + tally.failures) }
        let after = try server.residentMegabytes()
        let most = try server.peakMegabytes()
        print("uploads: \(tally)")
        print(
            "memory \(Int(before)) MB after a tenth, \(Int(after)) MB at the end,"
                + " \(Int(most)) MB at most"
        )
        if after - before > growth {
            tally.failures.append("The memory grew by \(Int(after - before)) MB.")
        }
        if most > peak { tally.failures.append("The server took \(Int(most)) MB.") }
        guard try await server.isLive() else { throw Failed(["The server does not answer."]) }
        guard tally.failures.isEmpty else { throw Failed(tally.failures) }
    }

    private func play(
        _ kind: FuzzCase.Kind,
        _ numbers: Range<Int>,
        _ target: FuzzTarget,
        _ server: FuzzedServer
    ) async throws -> FuzzTally {
        let lanes = connections
        return try await withThrowingTaskGroup(of: FuzzTally.self) { group in
            for lane in 0..<lanes {
                group.addTask {
                    var tally = FuzzTally()
                    for number in stride(
                        from: numbers.lowerBound + lane,
                        to: numbers.upperBound,
                        by: lanes
                    ) {
                        tally.add(await target.send(kind, number), kind, number)
                        guard server.isRunning else { break }
                    }
                    return tally
                }
            }
            var all = FuzzTally()
            for try await tally in group { all.add(tally) }
            guard server.isRunning else { throw Failed(["The server died."] + all.failures) }
            return all
        }
    }

    private struct Failed: Error, CustomStringConvertible {
        let failures: [String]

        init(_ failures: [String]) { self.failures = failures }

        var description: String {
            failures.prefix(20).joined(separator: "\n") + "\n\(failures.count) failures"
        }
    }
}

/// The outcomes of many cases: the count of each status, and the failures.
struct FuzzTally: CustomStringConvertible {
    private var counts: [String: Int] = [:]
    private(set) var failures: [String] = []

    mutating func add(_ outcome: FuzzTarget.Outcome, _ kind: FuzzCase.Kind, _ number: Int) {
        for name in outcome.names { counts[name, default: 0] += 1 }
        if outcome.isFailure, failures.count < 100 {
            failures.append("\(kind.rawValue) \(number): \(outcome)")
        }
    }

    mutating func add(_ other: FuzzTally) {
        counts.merge(other.counts, uniquingKeysWith: +)
        failures += other.failures
    }

    var description: String {
        counts.sorted { $0.key < $1.key }.map { "\($0.key) × \($0.value)" }
            .joined(separator: ", ")
    }
}
