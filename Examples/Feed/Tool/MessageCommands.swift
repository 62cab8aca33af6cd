import ArgumentParser
import ExampleTerminal
import FeedApp
import FeedModel
import Sanguine

extension FeedTool {
    struct Conversations: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the last message of each of your conversations; offline, too."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { client in
                let screen = ConversationsScreen(client)
                await screen.load()
                if let error = screen.error { try say("\(error)") }
                for conversation in screen.conversations {
                    let name = conversation.profile?[Profile.name] ?? "?"
                    let direction = conversation.isOwn ? "to" : "from"
                    try say("\(conversation.id) \(direction) \(name): \(conversation.last.text)")
                }
                if screen.hasMore { try say("…") }
                if screen.conversations.isEmpty { try say("No messages yet.") }
            }
        }
    }

    struct SendMessage: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "message",
            abstract: "Show the messages between you and another user, or write one; offline, too."
        )
        @Argument(help: "The other user's name, such as @Ana, or profile.")
        var other: String
        @Argument(help: "The text of a message.") var text: String?
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { client in
                let screen = ConversationScreen(client, with: try await profile(client))
                await screen.load()
                if let text { try screen.send(text) }
                let name = screen.profile?[Profile.name] ?? "?"
                if screen.hasMore { try say("…") }
                for message in screen.messages {
                    try say("\(screen.isOwn(message) ? "You" : name): \(message.text)")
                }
                if screen.messages.isEmpty { try say("No messages yet.") }
            }
        }

        /// Finds the other user's profile: among the conversations, and then among all users.
        @MainActor
        private func profile(_ client: SanguineClient) async throws -> RecordID {
            guard other.hasPrefix("@") else { return try recordID(other) }
            let name = String(other.dropFirst())
            let known = ConversationsScreen(client).conversations.filter {
                $0.profile?[Profile.name] == name
            }
            if let only = known.first, known.count == 1 { return only.id }
            let screen = SearchScreen(client)
            screen.text = name
            await screen.load()
            let found = screen.profiles.filter { $0[Profile.name] == name }
            guard let first = found.first else {
                throw ValidationError(
                    screen.error.map { "\($0)" } ?? "Nobody is called '\(name)': use 'search'."
                )
            }
            guard found.count == 1 else {
                let ids = found.map(\.id.text).joined(separator: ", ")
                throw ValidationError("Several users are called '\(name)'. Use an id: \(ids).")
            }
            return first.id
        }
    }
}
