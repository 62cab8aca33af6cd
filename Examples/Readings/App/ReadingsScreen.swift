public import Foundation
public import Observation
public import ReadingsModel
public import Sanguine

/// The state of the app's main screen and the actions of its buttons.
@MainActor
@Observable
public final class ReadingsScreen {
    private let client: SanguineClient
    private let clock: any WallClock
    private let tray: PhotoTray
    private let shown: RecordModel<[Reading]>
    /// The limit of the day: what is left, the time of the reset, and what lifts it.
    public let paywall: PaywallState
    private var following: [RecordID: Task<Void, Never>] = [:]
    private var isSending = false

    /// The photo that is not stored on the server yet, even after a restart.
    public private(set) var chosen: ChosenPhoto?
    /// The progress of its upload; `nil` while none is in progress.
    public private(set) var upload: UploadProgress?
    /// The answers of this launch, whose texts grow.
    public private(set) var answers: [RecordID: AnswerModel<String>] = [:]
    /// The reason why the last reading failed.
    public private(set) var error: SanguineError?

    /// Creates the screen.
    ///
    /// - Parameters:
    ///   - client: The app's client.
    ///   - folder: The folder in which the chosen photo is remembered.
    ///   - clock: The time of day, from which the day of a reading follows.
    public init(
        _ client: SanguineClient,
        folder: URL,
        clock: any WallClock = SystemWallClock()
    ) {
        (self.client, self.clock, tray) = (client, clock, PhotoTray(in: folder))
        shown = client.model(.history)
        paywall = client.paywall(for: ReadPhoto.quota)
        chosen = tray.photo
    }

    // MARK: - State

    /// All readings, the newest first, with or without a network.
    public var history: [Reading] {
        // The model notifies views, in a later turn. The client's value is already the newest.
        _ = shown.value
        return client.cached(.history)
    }

    /// Returns the text of a reading as far as it is known.
    public func text(of reading: Reading) -> String {
        reading.text ?? answers[reading.id]?.text ?? ""
    }

    /// The readings of the day; `nil` before the first contact with the server.
    public var quota: Quota? {
        _ = paywall.used  // Notifies views, as the model of the history does.
        return client.quotas[ReadPhoto.quota]
    }

    /// The user's current day.
    public var today: CalendarDay {
        CalendarDay(containing: clock.now(), in: TimeZone(identifier: client.timeZone) ?? .current)
    }

    // MARK: - Actions

    /// Uploads a photo and begins its reading, which is in ``history`` when this returns.
    ///
    /// If this throws, the photo stays ``chosen``, and ``resume()`` continues with it.
    @discardableResult
    public func read(
        _ photo: URL,
        _ kind: ReadingKind,
        _ origin: Origin
    ) async throws -> AnswerModel<String> {
        let chosen = ChosenPhoto(file: photo, kind: kind, origin: origin)
        try tray.keep(chosen)
        self.chosen = chosen
        return try await send(chosen)
    }

    /// Continues with the chosen photo, and with readings that were in progress when the app ended.
    ///
    /// Call it at the launch, and when the app or the network returns.
    public func resume() async {
        let open = Dictionary(
            client.openCalls.compactMap { call in
                call.input(of: ReadPhoto.self).map { (call.key, $0) }
            }
        ) { first, _ in first }
        for (key, input) in open where !history.contains(where: { $0.call == key }) {
            guard let reading = try? Reading(call: key, input, day: today, photo: nil) else {
                continue
            }
            _ = try? client.perform(BeginReading(reading))
        }
        for reading in history where reading.text == nil && following[reading.id] == nil {
            guard let answer = try? client.answer(to: ReadPhoto.self, key: reading.call) else {
                continue
            }
            // A call of another device, or one whose draft was stored, may still be on its way.
            follow(answer, reading, mayBeUnknown: open[reading.call] == nil && reading.day >= today)
        }
        if let chosen, !isSending { _ = try? await send(chosen) }
    }

    /// Fetches the history and the quota, for pull to refresh.
    public func refresh() async throws {
        try await client.refresh(.history)
        _ = try await client.refresh(.quotas)
    }

    /// Waits until the readings in progress are in the history, or have failed.
    public func settle() async {
        for task in following.values { await task.value }
    }

    /// Removes a reading from the history of every device; one in progress is ended.
    public func delete(_ reading: Reading) throws {
        try client.perform(DeleteReading(reading.id))
        guard reading.text == nil else { return }
        let client = client
        // Otherwise the server would keep it when it is complete.
        Task { _ = try? await client.cancelCall(key: reading.call) }
    }

    /// Discards the chosen photo.
    public func discard() throws {
        try tray.keep(nil)
        (chosen, error) = (nil, nil)
    }

    // MARK: - Steps of a reading

    private func send(_ photo: ChosenPhoto) async throws -> AnswerModel<String> {
        (error, isSending) = (nil, true)
        defer { isSending = false }
        do throws(SanguineError) {
            return try begin(photo, try await stored(photo))
        } catch {
            self.error = error
            throw error
        }
    }

    /// Stores the photo, unless no reading is left, and returns its id.
    private func stored(_ photo: ChosenPhoto) async throws(SanguineError) -> String {
        let (parts, sent) = AsyncStream.makeStream(
            of: UploadProgress.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let showing = Task { for await part in parts { upload = part } }
        defer {
            showing.cancel()
            upload = nil
        }
        return try await client.upload(.file(photo.file), for: ReadPhoto.self) { sent.yield($0) }.id
    }

    private func begin(
        _ photo: ChosenPhoto,
        _ id: String
    ) throws(SanguineError) -> AnswerModel<String> {
        let input = ReadPhoto.Input(
            photo.kind,
            photo.origin,
            language: client.account.current.language
        )
        let answer = try client.answer(to: ReadPhoto(input, of: id))
        // From here on, another attempt would be another reading.
        if chosen == photo {
            try? tray.keep(nil)
            chosen = nil
        }
        guard let reading = try? Reading(call: answer.key, input, day: today, photo: id) else {
            return answer
        }
        try client.perform(BeginReading(reading))
        follow(answer, reading, mayBeUnknown: false)
        return answer
    }

    /// Fetches the history when the answer is complete, or removes a reading that failed.
    ///
    /// The server has added the text to the history in the transaction that charged the call.
    private func follow(_ answer: AnswerModel<String>, _ reading: Reading, mayBeUnknown: Bool) {
        answers[reading.id] = answer
        let client = client
        following[reading.id] = Task {
            do throws(SanguineError) {
                _ = try await answer.finished()
                await showText()
            } catch {
                self.error = error
                let isLost = error.code == ProblemCode.notFound.rawValue && mayBeUnknown
                // Without the server's word, the reading may still be found.
                if case .problem = error, !isLost {
                    _ = try? client.perform(AbandonReading(reading.id))
                }
            }
            following[reading.id] = nil
        }
    }

    /// Fetches the history; without a network, the answer shows the text until the next fetch.
    private func showText() async { _ = try? await client.refresh(.history) }
}
