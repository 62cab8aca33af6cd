import Foundation
import SanguineAuthority
import SanguineModel

/// Extracts frames of videos, for models that accept only images.
///
/// The video is divided into equal ranges, and the frame in the middle of each is used.
struct FrameSampler: Sendable {
    /// The reason why no frames could be extracted.
    enum Failure: Error, Hashable {
        /// The file is not a readable video; the text is for the log.
        case unreadable(String)
        /// The time limit was exceeded.
        case timeout
        /// The program that reads videos cannot be run.
        case noProgram(String)
        /// The task was cancelled.
        case cancelled
    }

    /// The account for requests without one.
    private static let anonymousAccount = Identifier(at: Timestamp(millisecondsSince1970: 0))

    /// Returns at most `count` frames of a video as JPEG images, oldest first.
    typealias Sample =
        @Sendable (
            _ video: [UInt8], _ type: String, _ count: Int
        ) async throws(Failure) -> [[UInt8]]

    /// The number of frames per video.
    let count: Int
    private let sample: Sample
    private let turns: CallQueue

    /// Creates a sampler.
    ///
    /// - Parameters:
    ///   - count: The number of frames per video.
    ///   - atOnce: The maximum number of videos in progress, of which one account gets at most
    ///     half. Default: one per core, but at least two.
    ///   - sample: Extracts the frames.
    init(
        count: Int,
        atOnce: Int = max(2, ProcessInfo.processInfo.activeProcessorCount),
        sample: @escaping Sample
    ) {
        self.count = count
        self.sample = sample
        turns = CallQueue(limit: atOnce, accountShare: max(1, atOnce / 2))
    }

    /// The number of waiting videos, for tests.
    var waiting: Int { turns.counts.waiting }

    /// Returns the request with its videos replaced by frames.
    ///
    /// A request whose body the caller wrote is not changed. Accounts take turns, so that many
    /// videos of one account delay another account by at most one video.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - account: The account of the caller. Default: none.
    ///   - timeout: The time limit, which includes the wait for a turn.
    ///   - clock: The clock for the time limit.
    /// - Returns: The changed request.
    /// - Throws: ``Failure``.
    func request(
        _ request: UpstreamRequest,
        of account: Identifier? = nil,
        within timeout: Duration,
        _ clock: any Clock<Duration>
    ) async throws(Failure) -> UpstreamRequest {
        guard case .prompt(var prompt) = request else { return request }
        let watch = Stopwatch(clock)
        for turn in prompt.messages.indices {
            var parts: [UpstreamPrompt.Message.Part] = []
            for part in prompt.messages[turn].content {
                guard case .file(_, let type, let bytes) = part, Self.isVideo(type) else {
                    parts.append(part)
                    continue
                }
                let left = max(.zero, timeout - watch.elapsed())
                let pictures = try await pictures(bytes, type, of: account, within: left, clock)
                parts += pictures.map { .image(type: "image/jpeg", bytes: $0) }
            }
            prompt.messages[turn].content = parts
        }
        return .prompt(prompt)
    }

    /// Returns whether files of a type are videos.
    static func isVideo(_ type: String) -> Bool { type.hasPrefix("video/") }

    private func pictures(
        _ video: [UInt8],
        _ type: String,
        of account: Identifier?,
        within timeout: Duration,
        _ clock: any Clock<Duration>
    ) async throws(Failure) -> [[UInt8]] {
        let caller = CallQueue.Caller(account: account ?? Self.anonymousAccount)
        let first = await withTaskGroup(of: Result<[[UInt8]], Failure>.self) { group in
            group.addTask {
                guard let turn = await turns.enter(caller, "", FunctionLimits()) else {
                    return .failure(.cancelled)
                }
                defer { turn.release() }
                do throws(Failure) {
                    return .success(try await sample(video, type, count))
                } catch {
                    return .failure(error)
                }
            }
            group.addTask {
                let isOver = (try? await clock.sleep(for: timeout)) != nil
                return .failure(isOver ? .timeout : .cancelled)
            }
            let first = await group.next() ?? .failure(.cancelled)
            group.cancelAll()
            return first
        }
        if Task.isCancelled { throw .cancelled }
        let pictures = try first.get()
        guard !pictures.isEmpty else { throw .unreadable("it has no frames") }
        return pictures
    }
}
