"""byte_proxy.py - a proxy of bytes that can be told to fail.

It stands between two ends of a TCP connection and knows nothing of what they
say. What it does is fields that may be set at any time, from any thread:

  delay     seconds that every byte stays here
  rate      bytes a second, each way; None: all that comes
  reads     False: it reads no more, and holds the connections (half open)
  swallows  True: it reads and forwards nothing
  one_way   "there" or "back": reads and swallows mean this direction only
  damage    how many of the next pieces get a bit turned over
  closes    True: new connections are closed at once
cut() resets those that there are. One thread runs all proxies of a process.
"""
import asyncio
import random
import socket
import struct
import threading

PIECE = 65536  # bytes read at once
PIECES = 64  # that wait for their time, each way
POLL = 0.01  # seconds between two looks at a field

loop = asyncio.new_event_loop()


class Proxy:
    def __init__(self, listen, to):
        self.listen, self.to = listen, to
        self.writers = set()
        self.damaged = 0
        self.heal()
        asyncio.run_coroutine_threadsafe(self.open(), loop).result(10)

    def heal(self):
        self.delay, self.rate, self.reads, self.swallows = 0, None, True, False
        self.one_way, self.damage, self.closes = None, 0, False

    async def open(self):
        await asyncio.start_server(self.serve, *self.listen)

    async def serve(self, reader, writer):
        if self.closes:
            writer.close()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.to)
        except OSError:
            writer.close()
            return
        pair = (writer, far_writer)
        self.writers.update(pair)
        try:
            await asyncio.gather(self.pump("there", reader, far_writer, pair),
                                 self.pump("back", far_reader, writer, pair))
        finally:
            self.writers.difference_update(pair)

    def fails(self, way):
        return self.one_way in (None, way)

    def spoil(self, data):
        if self.damage <= 0:
            return data
        self.damage -= 1
        self.damaged += 1
        data = bytearray(data)
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        return bytes(data)

    async def pump(self, way, reader, writer, pair):
        """Bytes of one direction, until either end is gone."""
        waiting = asyncio.Queue(PIECES)
        sender = asyncio.ensure_future(self.send(way, waiting, writer))
        try:
            while True:
                while not self.reads and self.fails(way):
                    await asyncio.sleep(POLL)
                data = await reader.read(PIECE)
                if not data:
                    break
                await waiting.put((loop.time() + self.delay, self.spoil(data)))
        except OSError:
            pass
        finally:
            sender.cancel()
            for w in pair:
                w.close()

    async def send(self, way, waiting, writer):
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0, due - loop.time()))
            if self.rate:
                await asyncio.sleep(len(data) / self.rate)
            if self.swallows and self.fails(way):
                continue
            try:
                writer.write(data)
                await writer.drain()
            except OSError:
                return

    def cut(self):
        """Resets all connections."""
        loop.call_soon_threadsafe(self.reset)

    def reset(self):
        for writer in list(self.writers):
            s = writer.get_extra_info("socket")
            if s is not None:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


def start():
    threading.Thread(target=loop.run_forever, daemon=True).start()
