import ArgumentParser
import ExampleTerminal
import FeedApp
import FeedModel
import Foundation
import Sanguine

extension FeedTool {
    struct Scroll: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Scroll through posts: all, those of users that you follow, or one's."
        )
        @Option(help: "The number of pages to scroll through.") var pages = 2
        @Option(help: "The time for which a page is read, in milliseconds.") var pause = 300
        @Option(help: "The id of a profile. Default: all users.", transform: recordID)
        var profile: RecordID?
        @Flag(help: "Only your posts and those of the users that you follow.") var following = false
        @OptionGroup var options: AppOptions

        func validate() throws {
            guard (1...100).contains(pages), (0...60_000).contains(pause) else {
                throw ValidationError("Set '--pages' to 1 to 100, and '--pause' to 0 to 60000.")
            }
            guard profile == nil || !following else {
                throw ValidationError("Set '--profile' or '--following', not both.")
            }
        }

        func run() async throws {
            let all = following ? FeedSource.following : .everyone
            let source = profile.map { FeedSource.profile($0) } ?? all
            try await options.withApp { client in
                let screen = FeedScreen(client, source)
                let cached = screen.posts.count
                try say("\(cached) posts are cached")
                await screen.load()
                if let error = screen.error { try say("\(error)") }
                try await scroll(screen, client)
            }
        }

        @MainActor
        private func scroll(_ screen: FeedScreen, _ client: SanguineClient) async throws {
            let size = PageLimits.size
            for page in 0..<pages {
                let isAhead = screen.posts.count > page * size
                if page > 0, !isAhead { await screen.loadNext() }
                let rows = Array(screen.posts.dropFirst(page * size).prefix(size))
                if rows.isEmpty { return try say(page == 0 ? "No posts yet." : "The end.") }
                if page > 0 { try say("— page \(page + 1), \(isAhead ? "prefetched" : "loaded")") }
                try await showAuthors(of: rows, client)
                var pictures: [ImageModel] = []
                for post in rows {
                    screen.appeared(post)
                    let picture = screen.picture(of: post)
                    picture.appear()
                    pictures.append(picture)
                    try say(line(post, screen))
                }
                try await Task.sleep(for: .milliseconds(pause))
                for picture in pictures { picture.disappear() }
            }
        }

        /// Loads the authors of a page, in one request.
        @MainActor
        private func showAuthors(of posts: [Post], _ client: SanguineClient) async throws {
            await withTaskGroup(of: Void.self) { tasks in
                for id in Set(posts.compactMap(\.profile)) {
                    tasks.addTask { _ = try? await client.value(of: .card(id)) }
                }
            }
        }

        @MainActor
        private func line(_ post: Post, _ screen: FeedScreen) -> String {
            let name = screen.author(of: post)?[Profile.name] ?? "?"
            let picture = post.photo == nil ? "" : " [picture]"
            let heart = screen.likes.contains(post) ? "♥" : "♡"
            let likes = screen.likes.count(of: post)
            return """
                \(post.id) \(name): \(post.text)\(picture) \(heart) \(likes), \
                \(post.replies ?? 0) replies
                """
        }
    }

    struct Replies: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the replies to a post, or write one."
        )
        @Argument(help: "The post's id.", transform: recordID)
        var post: RecordID
        @Argument(help: "The text of a reply.") var text: String?
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { client in
                let screen = PostScreen(client, post)
                await screen.load()
                if let text { try screen.reply(text) }
                for reply in screen.replies { try say(reply.text) }
                if screen.hasMore { try say("…") }
                if screen.replies.isEmpty { try say("No replies yet.") }
            }
        }
    }

    struct Search: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Find profiles by the beginning of their names."
        )
        @Argument(help: "The beginning of a name, regardless of case and accents.")
        var text: String
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { client in
                let screen = SearchScreen(client)
                screen.text = text
                await screen.load()
                if let error = screen.error { try say("\(error)") }
                for card in screen.profiles {
                    try say("\(card.id) \(card[Profile.name] ?? "?")")
                }
                if screen.hasMore { try say("…") }
            }
        }
    }

    struct Matrix: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show where each value is stored, and how long."
        )
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { client in try say("\(client.matrix())") }
        }
    }
}
