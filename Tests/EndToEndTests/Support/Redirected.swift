import Foundation
import TestSupport
import Testing

/// A run of the real `sanguine` whose standard output goes where nothing can be written.
enum Redirected {
    /// Where the output goes.
    enum Sink: String, CaseIterable, CustomTestStringConvertible {
        /// A device that is always full.
        case fullDisk
        /// A pipe that nobody reads.
        case closedPipe
        /// Nowhere: the descriptor is closed.
        case nothing

        var testDescription: String { rawValue }

        /// What a shell appends to the command.
        fileprivate var redirection: String {
            switch self {
            case .fullDisk: "exec \"$@\" > /dev/full"
            case .closedPipe: "exec \"$@\""
            case .nothing: "exec \"$@\" >&-"
            }
        }
    }

    /// How it ended, and what it said to standard error.
    struct Ended {
        /// The exit status, or minus the signal that ended it.
        let status: Int32
        let errors: String
    }

    /// Runs the command to its end, and kills it after 30 seconds.
    static func run(_ arguments: [String], into sink: Sink) async throws -> Ended {
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", sink.redirection, "sh", Tool.executable().path] + arguments
        process.environment = ProcessInfo.processInfo.environment
            .filter { !$0.key.hasPrefix("SANGUINE_") }
        let (out, err) = (Pipe(), Pipe())
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = out
        process.standardError = err
        if sink == .closedPipe { try out.fileHandleForReading.close() }
        let (statuses, status) = AsyncStream.makeStream(of: Int32.self)
        process.terminationHandler = { process in
            let isExit = process.terminationReason == .exit
            status.yield(isExit ? process.terminationStatus : -process.terminationStatus)
        }
        try process.run()
        let number = process.processIdentifier
        DispatchQueue.global().asyncAfter(deadline: .now() + 30) {
            if process.isRunning { kill(number, SIGKILL) }
        }
        let text = try await Task.detached {
            try err.fileHandleForReading.readToEnd() ?? Data()
        }
        .value
        for await status in statuses {  // tidy: allow unbounded-wait: the process is ended.
            return Ended(status: status, errors: String(decoding: text, as: UTF8.self))
        }
        throw CancellationError()
    }
}
