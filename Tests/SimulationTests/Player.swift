import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// A process that plays games.
struct Player {
    let status: Int32
    let output: String

    /// Plays the seeds of the game of clients to the end, or until the test's time is over.
    static func playClients(
        _ seeds: ClosedRange<UInt64>,
        _ arguments: String...
    ) async throws -> Player {
        let seeds = "\(seeds.lowerBound)..\(seeds.upperBound)"
        return try await run(["--clients", "--seeds", seeds] + arguments)
    }

    /// Runs the command to the end, or until the test's time is over.
    static func run(_ arguments: [String]) async throws -> Player {
        let process = Process()
        process.executableURL = executable
        process.arguments = arguments
        // The program then plays itself and starts no other process that could outlive it.
        process.environment = ProcessInfo.processInfo.environment
            .merging(["SWIFT_DETERMINISTIC_HASHING": "1"]) { $1 }
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let number = process.processIdentifier
        return await withTaskCancellationHandler {
            await withCheckedContinuation { end in  // tidy: allow unbounded-wait: it is killed.
                let reader = output.fileHandleForReading
                Thread.detachNewThread {
                    let data = try? reader.readToEnd()
                    process.waitUntilExit()  // tidy: allow unbounded-wait: it is killed.
                    let text = String(decoding: data ?? Data(), as: UTF8.self)
                    end.resume(returning: Player(status: process.terminationStatus, output: text))
                }
            }
        } onCancel: {
            kill(number, SIGKILL)
        }
    }

    /// The program in the folder of the test bundle, wherever that was built.
    private static var executable: URL {
        let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") }?.bundleURL
        let tests = bundle ?? Bundle.main.executableURL ?? URL(filePath: CommandLine.arguments[0])
        return tests.deletingLastPathComponent().appending(path: "Simulate")
    }
}
