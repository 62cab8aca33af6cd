import Foundation
import SanguineAuthority
import SanguineModel

/// Makes pictures of a video, for models that take pictures alone.
///
/// The video is divided into equal stretches, and the picture in the middle of each is taken.
struct FrameSampler: Sendable {
    /// Why there are no pictures.
    enum Failure: Error, Hashable {
        /// The file is no video that can be read; the text is for the log.
        case unreadable(String)
        /// It took longer than it may.
        case timeout
        /// The program that reads videos does not run.
        case noProgram(String)
        /// The caller gave up.
        case cancelled
    }

    /// Who asks if nobody is named.
    private static let nobody = Identifier(at: Timestamp(millisecondsSince1970: 0))

    /// The pictures of a video, oldest first: JPEG, at most so many.
    typealias Sample =
        @Sendable (
            _ video: [UInt8], _ type: String, _ count: Int
        ) async throws(Failure) -> [[UInt8]]

    /// How many pictures are made of a video.
    let count: Int
    private let sample: Sample
    private let turns: CallQueue

    /// Creates a sampler.
    ///
    /// - Parameters:
    ///   - count: How many pictures are made of a video.
    ///   - atOnce: How many videos are read at a time, of which one account has at most half.
    ///     Default: one for each core, and at least two.
    ///   - sample: What makes the pictures.
    init(
        count: Int,
        atOnce: Int = max(2, ProcessInfo.processInfo.activeProcessorCount),
        sample: @escaping Sample
    ) {
        self.count = count
        self.sample = sample
        turns = CallQueue(limit: atOnce, accountShare: max(1, atOnce / 2))
    }

    /// How many videos wait for their turn, for tests.
    var waiting: Int { turns.counts.waiting }

    /// The request with pictures in the place of its videos.
    ///
    /// A request that the caller has written is left as it is. Accounts take turns, so that one
    /// with many videos delays another's first by one.
    ///
    /// - Parameters:
    ///   - request: What is asked.
    ///   - account: Who asks. Default: nobody in particular.
    ///   - timeout: The longest time that it may take, with the wait for a turn.
    ///   - clock: The clock that measures it.
    /// - Returns: What is asked instead.
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

    /// Whether files of that type are videos.
    static func isVideo(_ type: String) -> Bool { type.hasPrefix("video/") }

    private func pictures(
        _ video: [UInt8],
        _ type: String,
        of account: Identifier?,
        within timeout: Duration,
        _ clock: any Clock<Duration>
    ) async throws(Failure) -> [[UInt8]] {
        let caller = CallQueue.Caller(account: account ?? Self.nobody)
        let first = await withTaskGroup(of: Result<[[UInt8]], Failure>.self) { group in
            group.addTask {
                guard let turn = await turns.enter(caller, "", FunctionLimits()) else {
                    return .failure(.cancelled)
                }
                defer { turn.leave() }
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
        guard !pictures.isEmpty else { throw .unreadable("it has no picture") }
        return pictures
    }
}
