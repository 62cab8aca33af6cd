import Foundation
import Sanguine
import SanguineModel

/// The cost of reading and searching a thread of 100,000 messages on a device.
enum ThreadBenchmarks {
    static let all: [Benchmark] = [
        Benchmark("a thread of 100,000 messages") { try await measure() }
    ]

    private static let clock = ContinuousClock()
    private static let count = 100_000
    private static let thread = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 7)))

    private static func measure() async throws -> [Figure] {
        let folder = try Folder()
        let feed = try RecordFeed(count: count + 1, record)
        let memory = try AllocatedMemory.megabytes()
        let client = try SanguineClient(configuration(folder, feed))
        try await client.synchronize()
        let first = try page(of: client)
        let (earlier, window) = try await scroll(client)
        let found = try await search(client)
        let used = try AllocatedMemory.megabytes() - memory
        client.close()
        return [
            aim("first page of 100,000 messages", first, 5, "ms"),
            aim("an earlier page of 100,000 messages, in a window of \(window)", earlier, 5, "ms"),
            aim("slowest prefix search of 100,000 messages", found, 20, "ms"),
            aim("memory of a client that has read and searched them", used, 64, "MB"),
        ]
    }

    private static func aim(
        _ name: String,
        _ value: Double,
        _ aim: Double,
        _ unit: String
    ) -> Figure {
        Figure(cost: name, value, unit: unit, of: "the aim", aim, atMost: 1)
    }

    /// Measures the last page, of which no message was decoded yet.
    private static func page(of client: SanguineClient) throws -> Double {
        let start = clock.now
        let messages = client.threads.messages(of: thread)
        let time = (clock.now - start) / .milliseconds(1)
        guard messages.count == MessageLimits.page, messages.last?.record.position == count else {
            throw BenchmarkError.wrong("the last page")
        }
        return time
    }

    /// Measures earlier pages of a model until its window is full, and beyond.
    @MainActor
    private static func scroll(_ client: SanguineClient) throws -> (Double, Int) {
        let model = client.threads.model(of: thread)
        var samples: [Double] = []
        for _ in 0..<40 {
            samples.append(clock.measure { model.loadEarlier() } / .milliseconds(1))
        }
        guard model.messages.count == MessageLimits.window, model.hasEarlier, model.hasLater else {
            throw BenchmarkError.wrong("the window of a thread")
        }
        return (samples.median, model.messages.count)
    }

    /// Measures searches for beginnings of frequent and of rare words, once the index is complete.
    private static func search(_ client: SanguineClient) async throws -> Double {
        while try await !client.threads.search(prefix: "m").isComplete {
            try await clock.sleep(for: .milliseconds(50))
        }
        var slowest = 0.0
        for text in ["m", "ma", "message", "w1", "w12 me", "w123", "zzz", "every w77"] {
            var samples: [Double] = []
            for _ in 0..<9 {
                let start = clock.now
                let results = try await client.threads.search(prefix: text).results
                samples.append((clock.now - start) / .milliseconds(1))
                guard results.isEmpty == (text == "zzz") else {
                    throw BenchmarkError.wrong("the search for '\(text)'")
                }
            }
            slowest = max(slowest, samples.median)
        }
        return slowest
    }

    /// The JSON of a message; the last record is the thread.
    private static func record(_ number: Int) -> String {
        let time = Timestamp(millisecondsSince1970: 1_763_752_719_250 + Int64(number))
        guard number <= count else {
            return """
                {"collection":"$threads","id":"\(thread)","seq":\(number),"deleted":false,"value":\
                {"settings":{},"function":"chat","createdAt":"\(time)","updatedAt":"\(time)",\
                "lastMessageAt":"\(time)","messages":\(count),"lastPosition":\(count)}}
                """
        }
        let role = number.isMultiple(of: 2) ? "assistant" : "user"
        let words = (0..<12).map { "w\((number * 31 + $0 * 7_919) % 20_000)" }
        return """
            {"collection":"$messages","id":"message-\(number)","seq":\(number),"deleted":false,\
            "value":{"thread":"\(thread)","position":\(number),\
            "order":"\(ChatMessage.order(of: thread, at: number))","role":"\(role)",\
            "text":"Every message has many words: \(words.joined(separator: " ")).",\
            "isCut":false,"state":"complete","createdAt":"\(time)"}}
            """
    }

    private static func configuration(
        _ folder: Folder,
        _ feed: RecordFeed
    ) -> SanguineClient.Configuration {
        var configuration = SanguineClient.Configuration(server: URL(string: "http://localhost"))
        configuration.folder = folder.url
        configuration.transport = feed
        configuration.recordPolling = nil
        return configuration
    }
}
