"""The tests of CometMQ; what several of them share lies in this folder itself."""
