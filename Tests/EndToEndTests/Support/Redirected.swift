import Foundation
import TestSupport
import Testing

/// A run of the real `sanguine` with a standard output that cannot be written.
enum Redirected {
    /// The target of the output.
    enum Sink: String, CaseIterable, CustomTestStringConvertible {
        /// A device that is always full.
        case fullDisk
        /// A pipe without a reader.
        case closedPipe
        /// A closed descriptor.
        case nothing

        var testDescription: String { rawValue }

        /// The shell command that redirects the output.
        fileprivate var redirection: String {
            switch self {
            case .fullDisk: "exec \"$@\" > /dev/full"
            case .closedPipe: "exec \"$@\""
            case .nothing: "exec \"$@\" >&-"
            }
        }
    }

    /// The result of a command and its standard error.
    struct Ended {
        /// The exit status, or the negative number of the signal that ended it.
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
