import ArgumentParser
import ExampleTerminal
import FeedApp
import FeedModel
import FeedServer
import Foundation
import Sanguine
import SanguineServer

extension FeedTool {
    struct Publish: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "post",
            abstract: "Publish a post, also offline."
        )
        @Argument(help: "The text.") var text: String
        @Option(help: "A JPEG, PNG, WebP or HEIC file.") var photo: String?
        @Option(help: "A number from which the app draws a picture.") var draw: UInt64?
        @OptionGroup var options: AppOptions

        func validate() throws {
            guard photo == nil || draw == nil else {
                throw ValidationError("Set '--photo' or '--draw', not both.")
            }
        }

        func run() async throws {
            try await options.withApp { client in
                let file = photo.map { Photo(.file(URL(filePath: $0)), placeholder: nil) }
                let picture = file ?? draw.map { Drawing($0).photo }
                let post = try await FeedScreen(client).publish(text, photo: picture)
                try say("\(post.id)")
            }
        }
    }

    struct SetLike: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "like",
            abstract: "Like a post, or take the like back."
        )
        @Argument(help: "The post's id.", transform: recordID)
        var post: RecordID
        @Flag(help: "Take the like back.") var undo = false
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { client in
                let screen = FeedScreen(client)
                await screen.load()
                guard let post = screen.posts.first(where: { $0.id == post }) else {
                    throw ValidationError("Scroll to the post first: \(post) is not cached.")
                }
                try screen.likes.set(!undo, of: post)
                try say("\(screen.likes.count(of: post)) likes")
            }
        }
    }

    struct ShowProfile: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "profile",
            abstract: "Show a profile, or change your own one."
        )
        @Argument(help: "The id of a profile. Default: your own one.", transform: recordID)
        var id: RecordID?
        @Option(help: "Your name.") var name: String?
        @Option(help: "A text about you.") var about: String?
        @Option(help: "A number from which the app draws your avatar.") var draw: UInt64?
        @OptionGroup var options: AppOptions

        func validate() throws {
            guard id == nil || (name == nil && about == nil && draw == nil) else {
                throw ValidationError("Change only your own profile: leave out the id.")
            }
        }

        func run() async throws {
            try await options.withApp { client in
                let screen = ProfileScreen(client, id)
                try await screen.load()
                if name != nil || about != nil || draw != nil {
                    let avatar = draw.map { Drawing($0, width: 128, height: 128).photo }
                    try await screen.save(name: name, about: about, avatar: avatar)
                }
                guard let profile = screen.profile else {
                    return try say("No profile yet. Set '--name'.")
                }
                try say("\(profile.id) \(profile.name)")
                if !profile.about.isEmpty { try say(profile.about) }
                if let followers = profile.followers { try say("\(followers) followers") }
            }
        }
    }

    struct Follows: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "follow",
            abstract: "Follow a profile, or end that."
        )
        @Argument(help: "The profile's id.", transform: recordID)
        var id: RecordID
        @Flag(help: "Do not follow it any longer.") var undo = false
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.withApp { client in
                let screen = ProfileScreen(client, id)
                try? await screen.load()
                try screen.setFollowed(!undo)
                try say(screen.isFollowed ? "followed" : "not followed")
            }
        }
    }

    struct Fill: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Publish posts with drawn pictures, to have something to scroll through."
        )
        @Option(help: "The number of posts.") var posts = 60
        @OptionGroup var options: AppOptions

        func validate() throws {
            guard (1...1_000).contains(posts) else {
                throw ValidationError("Set '--posts' to 1 to 1000.")
            }
        }

        func run() async throws {
            try await options.withApp { client in
                let profile = ProfileScreen(client)
                if profile.profile == nil { try await profile.save(name: "Painter") }
                let screen = FeedScreen(client)
                for number in 1...posts {
                    let photo = Drawing(UInt64(number), width: 480, height: 320).photo
                    try await screen.publish("Picture \(number)", photo: photo)
                    // The outbox keeps a limited number of files.
                    if number % 50 == 0 { try await client.synchronize() }
                }
                try await client.synchronize()
                try say("\(posts) posts")
            }
        }
    }

    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Run the server.")
        @OptionGroup var ports: ServeOptions
        @Option(help: "Where the server keeps its data.") var data = "feed-data"
        @Flag(help: "Lift the limits of one address, for a load test from this machine.")
        var loadTest = false

        func run() async throws {
            var settings = ports.settings
            if loadTest {
                settings.limits.guestsPerHour = 0
                settings.limits.addressRequestsPerMinute = 60_000_000
                settings.limits.addressProcessorTime = .seconds(600)
                settings.limits.liveConnections = 20_000
                settings.limits.connections = 60_000
            }
            try await FeedServer.with(
                folder: URL(filePath: data),
                settings: settings,
                onListening: ServeOptions.announce
            ) { try await $0.serve() }
        }
    }
}
