#if os(macOS) || os(Linux)
import Foundation
import SanguineAuthority
import Synchronization

#if canImport(System)
import System
#else
import SystemPackage
#endif

/// Runs a program in a separate process to its end, with a bounded output.
///
/// The process only gets processor time that nothing else needs.
///
/// The process is started by `posix_spawn`, which takes the same time for every server. A fork
/// copies the page tables: 15 ms at 400 MB on a virtual machine, and all threads wait. Foundation's
/// `Process` spawns too, but other children that start at the same time inherit its pipes.
///
/// One thread per process reads its pipes and waits for its end.
///
/// Invariants: the process is killed if its output is too long or if the waiting task is cancelled,
/// and is never signalled after its end was collected.
///
/// Mutable state: `state`, protected by its mutex.
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
        var isCollected = false
        var isCancelled = false
        var ending: Result<Ending, any Error>?
        var waiter: CheckedContinuation<Ending, any Error>?
    }

    /// The time in milliseconds after which a cancelled process is noticed if it left children that
    /// keep its pipes open.
    private static let look: Int32 = 100

    /// Held while pipes are open that only the next process may have.
    private static let spawning = Mutex(())

    private let state = Mutex(State())
    private let process: pid_t

    private init(process: pid_t) { self.process = process }

    /// Runs a program without an environment.
    ///
    /// - Parameters:
    ///   - path: The path of the program.
    ///   - arguments: Its arguments.
    ///   - input: Its standard input.
    ///   - outputLimit: The maximum size of its standard output in bytes.
    ///   - complaintLimit: The maximum size of its standard error in bytes.
    /// - Returns: How it ended, and its output.
    /// - Throws: ``OutputTooLong``, `CancellationError`, or an `Errno` if the program could not be
    ///   started.
    static func run(
        _ path: String,
        _ arguments: [String],
        input: FileDescriptor,
        outputLimit: Int,
        complaintLimit: Int
    ) async throws -> Ending {
        try Task.checkCancellation()
        let started = try spawning.withLock { _ throws(Errno) in
            var pipes: [ReadPipe] = []
            defer { for pipe in pipes { try? pipe.writing.close() } }
            do throws(Errno) {
                for limit in [outputLimit, complaintLimit] { pipes.append(try ReadPipe(limit)) }
                let process = try spawn(path, arguments, [input] + pipes.map(\.writing))
                return (process: process, output: pipes[0], complaint: pipes[1])
            } catch {
                for var pipe in pipes { pipe.closeReading() }
                throw error
            }
        }
        let child = ChildProgram(process: started.process)
        let thread = Thread(named: "child program") {
            child.follow(started.output, started.complaint)
        }
        thread.start()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { child.resume($0) }
        } onCancel: {
            child.kill { $0.isCancelled = true }
        }
    }

    private func resume(_ waiter: CheckedContinuation<Ending, any Error>) {
        let ending = state.withLock { state in
            if state.ending == nil { state.waiter = waiter }
            return state.ending
        }
        if let ending { waiter.resume(with: ending) }
    }

    private func kill(_ body: (inout State) -> Void = { _ in }) {
        state.withLock { state in
            body(&state)
            if !state.isCollected { _ = Foundation.kill(process, SIGKILL) }
        }
    }

    // Runs on the process's own thread.
    private func follow(_ output: ReadPipe, _ complaint: ReadPipe) {
        var (output, complaint, isTooLong) = (output, complaint, false)
        while output.isOpen || complaint.isOpen, !isTooLong, !state.withLock({ $0.isCancelled }) {
            var polled = [output.poll, complaint.poll]
            _ = Foundation.poll(&polled, 2, Self.look)
            if polled[0].revents != 0 { output.read() }
            if polled[1].revents != 0 { complaint.read() }
            isTooLong = output.isTooLong || complaint.isTooLong
        }
        if isTooLong { kill() }
        output.closeReading()
        complaint.closeReading()
        var information = siginfo_t()
        while waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        let (bytes, complaints) = (output.bytes, complaint.bytes)
        let waiter = state.withLock { [isTooLong] state in
            var status: Int32 = 0
            waitpid(process, &status, 0)
            state.isCollected = true
            state.ending =
                if isTooLong {
                    .failure(OutputTooLong())
                } else if state.isCancelled {
                    .failure(CancellationError())
                } else {
                    .success(
                        Ending(
                            isSuccess: status == 0,
                            output: bytes,
                            complaint: complaints
                        )
                    )
                }
            defer { state.waiter = nil }
            return state.waiter.flatMap { waiter in state.ending.map { (waiter, $0) } }
        }
        waiter?.0.resume(with: waiter?.1 ?? .failure(CancellationError()))
    }

    /// Starts a program with these descriptors as its standard input, output and error.
    private static func spawn(
        _ path: String,
        _ arguments: [String],
        _ descriptors: [FileDescriptor]
    ) throws(Errno) -> pid_t {
        #if canImport(Darwin)
        var actions: posix_spawn_file_actions_t?
        var attributes: posix_spawnattr_t?
        let closing = Int32(POSIX_SPAWN_CLOEXEC_DEFAULT)
        #else
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        // All descriptors of this process are closed on exec.
        let closing: Int32 = 0
        #endif
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        for (target, descriptor) in descriptors.enumerated() {
            posix_spawn_file_actions_adddup2(&actions, descriptor.rawValue, Int32(target))
        }
        // The server ignores or handles these signals.
        var (signals, none) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigemptyset(&signals)
        for signal in [SIGPIPE, SIGTERM, SIGINT] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setsigmask(&attributes, &none)
        let flags = Int32(POSIX_SPAWN_SETSIGDEF) | Int32(POSIX_SPAWN_SETSIGMASK) | closing
        posix_spawnattr_setflags(&attributes, Int16(flags))
        #if canImport(Darwin)
        posix_spawnattr_set_qos_class_np(&attributes, QOS_CLASS_BACKGROUND)
        #endif

        let texts = ([path] + arguments).map { strdup($0) }
        defer { for text in texts { free(text) } }
        var environment: [UnsafeMutablePointer<CChar>?] = [nil]
        var process: pid_t = 0
        let status = posix_spawn(&process, path, &actions, &attributes, texts + [nil], &environment)
        guard status == 0 else { throw Errno(rawValue: status) }
        yieldToOthers(process)
        return process
    }

    /// Gives a process only the processor time that nothing else needs.
    ///
    /// On Darwin, its quality of service does. On Linux it has the policy `SCHED_IDLE`: a thread of
    /// the server that wakes up interrupts it at once, and would wait for the end of the slice of
    /// any other process. A process can only get this policy after its start, because the
    /// attributes of glibc's `posix_spawn` refuse it (`EINVAL`). If the system forbids it, or if
    /// the C library is Musl, which does not support it, the lowest priority remains.
    private static func yieldToOthers(_ process: pid_t) {
        #if os(Linux)
        _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), id_t(process), 19)
        var parameters = sched_param()
        // 5 is `SCHED_IDLE`, which Swift does not import.
        _ = sched_setscheduler(process, 5, &parameters)
        #endif
    }
}

/// A pipe whose content is read up to a limit.
private struct ReadPipe {
    private(set) var bytes: [UInt8] = []
    private(set) var isOpen = true
    private let reading: FileDescriptor
    let writing: FileDescriptor
    private let limit: Int

    init(_ limit: Int) throws(Errno) {
        self.limit = limit
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw Errno(rawValue: errno) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        (reading, writing) = (FileDescriptor(rawValue: ends[0]), FileDescriptor(rawValue: ends[1]))
    }

    var isTooLong: Bool { bytes.count > limit }

    /// The request to wait for bytes; nothing is awaited after the end.
    var poll: pollfd {
        pollfd(fd: isOpen ? reading.rawValue : -1, events: Int16(POLLIN), revents: 0)
    }

    /// Reads the available bytes, and closes the pipe at its end.
    mutating func read() {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = Foundation.read(reading.rawValue, &buffer, buffer.count)
        if count > 0 {
            bytes += buffer[..<count]
        } else if count == 0 || errno != EINTR {
            closeReading()
        }
    }

    mutating func closeReading() {
        guard isOpen else { return }
        isOpen = false
        try? reading.close()
    }
}
#endif
