#if os(macOS) || os(Linux)
import Foundation
import Synchronization

/// Runs a program in a separate process to its end, with a bounded output.
///
/// Foundation starts the process with `posix_spawn`, which takes the same time for every server. A
/// fork copies the page tables: 15 ms at 400 MB on a virtual machine, and all threads wait.
///
/// Invariant: the process is killed if its output is too long or if the waiting task is cancelled.
///
/// Mutable state: `state`, protected by its mutex, which is never held during an `await`.
final class ChildProgram: Sendable {
    /// What a program that has ended said.
    struct Ending: Sendable {
        let isSuccess: Bool
        /// The bytes of its standard output.
        let output: [UInt8]
        /// The bytes of its standard error.
        let complaint: [UInt8]
    }

    /// The error of a program with more output than allowed.
    struct OutputTooLong: Error {}

    private struct State {
        /// The process, until it has ended.
        var process: Int32?
        var output: [UInt8] = []
        var complaint: [UInt8] = []
        /// The pipes without an end yet.
        var openPipes = 2
        var status: Int32?
        var isTooLong = false
        var isCancelled = false
        var waiter: CheckedContinuation<Void, Never>?

        // A process that was killed may have left children, which keep its pipes open.
        var isOver: Bool {
            status != nil && (openPipes == 0 || isTooLong || isCancelled)
        }
    }

    private let state = Mutex(State())
    private let outputLimit: Int
    private let complaintLimit: Int

    private init(outputLimit: Int, complaintLimit: Int) {
        (self.outputLimit, self.complaintLimit) = (outputLimit, complaintLimit)
    }

    /// Runs a program without an environment.
    ///
    /// - Parameters:
    ///   - path: The path of the program.
    ///   - arguments: Its arguments.
    ///   - input: Its standard input.
    ///   - outputLimit: The maximum size of its standard output in bytes.
    ///   - complaintLimit: The maximum size of its standard error in bytes.
    /// - Returns: How it ended, and its output.
    /// - Throws: ``OutputTooLong``, `CancellationError`, or Foundation's error if the program could
    ///   not be started.
    static func run(
        _ path: String,
        _ arguments: [String],
        input: FileHandle,
        outputLimit: Int,
        complaintLimit: Int
    ) async throws -> Ending {
        let child = ChildProgram(outputLimit: outputLimit, complaintLimit: complaintLimit)
        let process = Process()
        let (output, complaint) = (Pipe(), Pipe())
        process.executableURL = URL(filePath: path)
        process.arguments = arguments
        process.environment = [:]
        process.standardInput = input
        (process.standardOutput, process.standardError) = (output, complaint)
        process.terminationHandler = { child.ended($0.terminationStatus) }
        output.fileHandleForReading.readabilityHandler = { child.read($0, isComplaint: false) }
        complaint.fileHandleForReading.readabilityHandler = { child.read($0, isComplaint: true) }
        defer {
            output.fileHandleForReading.readabilityHandler = nil
            complaint.fileHandleForReading.readabilityHandler = nil
        }
        try Task.checkCancellation()
        try process.run()
        return try await child.ending(of: process.processIdentifier)
    }

    private func ending(of process: Int32) async throws -> Ending {
        state.withLock { if $0.status == nil { $0.process = process } }
        await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                update { $0.waiter = waiter }
            }
        } onCancel: {
            update { $0.isCancelled = true }
        }
        let state = state.withLock { $0 }
        if state.isTooLong { throw OutputTooLong() }
        if state.isCancelled { throw CancellationError() }
        return Ending(
            isSuccess: state.status == 0,
            output: state.output,
            complaint: state.complaint
        )
    }

    private func ended(_ status: Int32) {
        update { state in
            (state.status, state.process) = (status, nil)
        }
    }

    private func read(_ pipe: FileHandle, isComplaint: Bool) {
        let bytes = pipe.availableData
        if bytes.isEmpty { pipe.readabilityHandler = nil }
        update { state in
            if bytes.isEmpty { state.openPipes -= 1 }
            if isComplaint { state.complaint += bytes } else { state.output += bytes }
            let isWithin =
                state.complaint.count <= complaintLimit && state.output.count <= outputLimit
            if !isWithin { state.isTooLong = true }
        }
    }

    /// Changes the state, kills a process whose end nobody needs, and resumes the waiting task.
    private func update(_ body: (inout State) -> Void) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            body(&state)
            if let process = state.process, state.isTooLong || state.isCancelled {
                kill(process, SIGKILL)
            }
            guard state.isOver else { return nil }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }
}
#endif
